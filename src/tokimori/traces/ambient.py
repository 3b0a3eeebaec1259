"""Place of this program in a trace right now. OpenTelemetry is not loaded for that: a span is its user's."""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar

from tokimori.model.cause import VARIABLE, traceparent_in

_attempt: ContextVar[tuple[str | None, str | None]] = ContextVar("tokimori_attempt", default=(None, None))
"""The place and the run of an attempt: one variable, as each costs a function that does little."""


def go_on_from(traceparent: str | None, run_id: str | None = None) -> None:
    """Note in the calling context the place in the trace, and the run, of its attempt."""
    _attempt.set((traceparent, run_id))


def run_in_hand(otherwise: str | None) -> Callable[[], str | None]:
    """Return what tells which run the caller works on: that of its function, else that which started this program."""
    return lambda: _attempt.get()[1] or otherwise


def ambient(environment: Mapping[str, str]) -> Callable[[], str | None]:
    """Return a function that gives the caller's place: OpenTelemetry's current span, its attempt, or the variable."""
    given = traceparent_in(environment.get(VARIABLE))
    return lambda: _of_span() or _attempt.get()[0] or given


def _of_span() -> str | None:
    """Return the current span. A program that has one has loaded this module; another thread may just be loading it."""
    current = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current is None:
        return None
    at = current().get_span_context()
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{int(at.trace_flags):02x}" if at.is_valid else None
