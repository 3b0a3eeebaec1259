"""Place of this program in a trace right now. OpenTelemetry is not loaded for that: a span is its user's."""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Protocol

from tokimori.model.cause import VARIABLE, traceparent_in


class TracedAttempt(Protocol):
    """An attempt as a trace sees it: its place there, and its run."""

    @property
    def traceparent(self) -> str | None:
        """Return the place, if it has one."""
        ...

    @property
    def run_id(self) -> str:
        """Return the run."""
        ...


in_hand: ContextVar[TracedAttempt | None] = ContextVar("tokimori_in_hand", default=None)
"""The attempt on which the caller works: one variable for all, as each costs a function that does little."""


def run_of_caller(otherwise: str | None) -> Callable[[], str | None]:
    """Return a function that returns the run on which its caller works; `otherwise` if that is no function of a run."""
    return lambda: otherwise if (attempt := in_hand.get()) is None else attempt.run_id


def ambient(environment: Mapping[str, str]) -> Callable[[], str | None]:
    """Return a function that gives the caller's place: OpenTelemetry's current span, its attempt, or the variable."""
    given = traceparent_in(environment.get(VARIABLE))
    return lambda: _of_span() or getattr(in_hand.get(), "traceparent", None) or given


def _of_span() -> str | None:
    """Return the current span. A program that has one has loaded this module; another thread may just be loading it."""
    current = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current is None:
        return None
    at = current().get_span_context()
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{int(at.trace_flags):02x}" if at.is_valid else None
