"""Spans of attempts, if OpenTelemetry is installed (`tokimori[otel]`) and the program has set it up."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tokimori.model.cause import HEADER
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Failed, Lost, Outcome, Succeeded, TimedOut
from tokimori.ports.executor import AttemptTask, Ended, Executor, ExecutorAround, Report

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)

NAME = "tokimori"
Attributes = Mapping[str, str | int]


def tracer_here() -> "Tracer | None":
    """Return the tracer of this process; None if OpenTelemetry is not installed, or nobody has set it up."""
    try:
        from opentelemetry import trace  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer(NAME)


@contextmanager
def span_of(tracer: "Tracer", name: str, traceparent: str | None, attributes: Attributes) -> Iterator[None]:
    """Make a span the current one; its parent is the place `traceparent`."""
    with tracer.start_as_current_span(name, context=_context(traceparent), attributes=attributes):
        yield


class TracedExecutor(ExecutorAround):
    """Begins a span with each attempt and ends it with the attempt, which gets to know where its span stands."""

    def __init__(self, executor: Executor, tracer: "Tracer") -> None:
        super().__init__(executor)
        self._tracer = tracer
        self._spans: dict[tuple[RunId, Token], Span] = {}

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        self._executor.start([self._begun(task) for task in tasks])

    async def close(self) -> None:
        """See `Executor.close`. A span that nobody has ended ends here."""
        await self._executor.close()
        for span in self._spans.values():
            span.end()
        self._spans.clear()

    def _begun(self, task: AttemptTask) -> AttemptTask:
        try:
            span = self._tracer.start_span(
                f"run {task.job_id}", context=_context(task.traceparent), attributes=attributes_of(task)
            )
            self._spans[task.run_id, task.token] = span
            return replace(task, traceparent=_place_of(span) or task.traceparent)
        except Exception:
            log.exception("no span was begun for the run %s", task.run_id)
            return task

    def _receive_report(self, report: Report) -> None:
        if isinstance(report, Ended):
            self._finish(report)
        self._report(report)

    def _finish(self, ended: Ended) -> None:
        span = self._spans.pop((ended.run_id, ended.token), None)
        if span is None:
            return
        try:
            _set_outcome(span, ended.outcome)
            span.end()
        except Exception:
            log.exception("the span of the run %s was not ended", ended.run_id)


def traced(executor: Executor) -> Executor:
    """Return the executor, with spans if they go anywhere."""
    tracer = tracer_here()
    return executor if tracer is None else TracedExecutor(executor, tracer)


def attributes_of(task: AttemptTask) -> Attributes:
    """Return the attributes of an attempt's span."""
    return {
        "tokimori.job.id": task.job_id,
        "tokimori.run.id": task.run_id,
        "tokimori.attempt": task.attempt,
        "tokimori.target": type(task.target).__name__.lower(),
    }


def _set_outcome(span: "Span", outcome: Outcome) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    span.set_attribute("tokimori.outcome", type(outcome).__name__)
    match outcome:
        case Failed(error=why) | TimedOut(error=why) | Lost(reason=why):
            span.set_status(StatusCode.ERROR, why)
        case Succeeded(exit_code=int() as code):
            span.set_attribute("process.exit.code", code)
        case _:
            pass


def _context(traceparent: str | None) -> "Context":
    """Return the context of a span with this place; an empty one begins a trace."""
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier = {} if traceparent is None else {HEADER: traceparent}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _place_of(span: "Span") -> str | None:
    at = span.get_span_context()
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{int(at.trace_flags):02x}" if at.is_valid else None
