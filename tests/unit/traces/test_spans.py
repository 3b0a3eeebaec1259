"""Spans of attempts, as the SDK of OpenTelemetry gets them."""

import sys
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.unit.examples import NEW_YEAR
from tests.unit.executors.test_executors import Recorder, task
from tokimori.model.outcome import Cancelled, Failed, Lost, Outcome, Succeeded, TimedOut
from tokimori.model.target import Noop
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason
from tokimori.traces.spans import TracedExecutor, traced, tracer_here

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


class Exported:
    """A tracer, and the spans that ended."""

    def __init__(self) -> None:
        provider, self._kept = TracerProvider(), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = provider.get_tracer("test")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Those that ended so far."""
        return self._kept.get_finished_spans()


@pytest.fixture
def exported() -> Exported:
    return Exported()


class Keeping(Recorder):
    """An executor that keeps the tasks, and what it reports to."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[AttemptTask] = []
        self.report: Callable[[Report], None] = lambda _: None

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor`."""
        self.report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor`."""
        self.tasks += tasks


def ended(of: AttemptTask, outcome: Outcome) -> Ended:
    """The report of its end."""
    return Ended(run_id=of.run_id, token=of.token, outcome=outcome, at=NEW_YEAR)


def a_task(traceparent: str | None, run: str = "r") -> AttemptTask:
    """A task that goes on there."""
    return replace(task(run, Noop()), traceparent=traceparent)


async def test_an_attempt_has_a_span_and_goes_on_from_it(exported: Exported) -> None:
    """Its parent is where the run stands; what the attempt gets is in the same trace, below this span."""
    inner, told = Keeping(), list[Report]()
    executor = TracedExecutor(inner, exported.tracer)
    await executor.open(told.append)
    executor.start([a_task(PARENT)])
    assert len(exported.spans) == 0
    (given,) = inner.tasks
    report = ended(given, Succeeded(0))
    inner.report(report)
    assert told == [report]
    (span,) = exported.spans
    assert (span.name, span.parent and span.parent.span_id) == ("run job", int("b" * 16, 16))
    assert given.traceparent == f"00-{'a' * 32}-{span.context.span_id:016x}-01"
    assert dict(span.attributes or {}) == {
        "tokimori.job.id": "job",
        "tokimori.run.id": "r",
        "tokimori.attempt": 1,
        "tokimori.target": "noop",
        "tokimori.outcome": "Succeeded",
        "process.exit.code": 0,
    }


async def test_a_run_of_no_trace_begins_one(exported: Exported) -> None:
    """As those of schedules do, each its own."""
    inner = Keeping()
    executor = TracedExecutor(inner, exported.tracer)
    executor.start([a_task(None, "r1"), a_task(None, "r2")])
    first, second = (each.traceparent or "" for each in inner.tasks)
    assert first[3:35] != second[3:35]
    await executor.close()
    assert {span.parent for span in exported.spans} == {None}
    assert len(exported.spans) == 2


@pytest.mark.parametrize(
    ("outcome", "code", "why"),
    [
        (Failed("broken", exit_code=1), StatusCode.ERROR, "broken"),
        (TimedOut("too long"), StatusCode.ERROR, "too long"),
        (Lost("dead"), StatusCode.ERROR, "dead"),
        (Cancelled("enough"), StatusCode.UNSET, None),
    ],
)
async def test_how_it_ended_is_told(exported: Exported, outcome: Outcome, code: StatusCode, why: str | None) -> None:
    """An error with its words; what somebody has ended is none."""
    inner = Keeping()
    executor = TracedExecutor(inner, exported.tracer)
    await executor.open(lambda _: None)
    executor.start([a_task(PARENT)])
    inner.report(ended(inner.tasks[0], outcome))
    inner.report(ended(inner.tasks[0], outcome))
    (span,) = exported.spans
    assert (span.status.status_code, span.status.description) == (code, why)
    assert (span.attributes or {})["tokimori.outcome"] == type(outcome).__name__


class Broken:
    """A tracer of a bad day."""

    def start_span(self, *_: object, **__: object) -> None:
        """Fails."""
        raise RuntimeError("no span today")


async def test_no_run_is_lost_by_a_tracer_that_fails() -> None:
    """It starts as it is, and the log says so."""
    inner = Keeping()
    executor = TracedExecutor(inner, Broken())  # type: ignore[arg-type]
    executor.start([a_task(PARENT)])
    assert [each.traceparent for each in inner.tasks] == [PARENT]


async def test_all_else_is_handed_on(exported: Exported) -> None:
    """Orders, leases, and the end of the node."""
    inner = Recorder()
    executor, one = TracedExecutor(inner, exported.tracer), a_task(None)
    executor.stop(one.run_id, one.token, StopReason.CANCEL, grace=1)
    executor.renew(2)
    executor.forget(NEW_YEAR)
    await executor.close()
    assert [each if isinstance(each, str) else each[0] for each in inner.asked] == ["stop", "renew", "forget", "close"]  # type: ignore[index]


def test_without_opentelemetry_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, and where nobody has set it up."""
    inner = Recorder()
    assert traced(inner) is inner
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert tracer_here() is None
    assert traced(inner) is inner


def test_who_has_set_it_up_gets_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the provider of the program."""
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    assert isinstance(traced(Recorder()), TracedExecutor)
