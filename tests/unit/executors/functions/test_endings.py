"""From how an attempt of a function ended to its outcome."""

from math import inf, nan
from typing import Any

import pytest

from tokimori.executors.functions import wire
from tokimori.executors.functions.attempts import killed_with_process, outcome_of
from tokimori.model.outcome import (
    Cancelled,
    Failed,
    Hold,
    Lost,
    Outcome,
    Released,
    RetryAt,
    RetryIn,
    Succeeded,
    TimedOut,
)
from tokimori.ports.executor import StopReason


def ended(end: str, text: str | None = None, when: float = 0) -> wire.FunctionEnded:
    """What a worker process says."""
    return wire.FunctionEnded(number=1, began=0, at=1, end=end, text=text, when=when)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (ended(wire.SUCCEEDED, "{}"), Succeeded(None, "{}")),
        (ended(wire.SUCCEEDED), Succeeded()),
        (ended(wire.FAILED, "no"), Failed("no")),
        (ended(wire.FAILED_IN, "no", 2.5), Failed("no", wait=2.5)),
        (ended(wire.FINAL, "no"), Failed("no", final=True)),
        (ended(wire.RETRY), RetryIn(None)),
        (ended(wire.RETRY_IN, when=2.5), RetryIn(2.5)),
        (ended(wire.RETRY_AT, when=3_000_000), RetryAt(3_000_000)),  # type: ignore[arg-type]
        (ended(wire.HELD, "look"), Hold("look")),
        (ended(wire.RELEASED, "x"), Released("x", asked=True)),
        (ended(wire.LATE, "x"), Released("x")),
    ],
)
def test_what_is_said_is_the_outcome(said: wire.FunctionEnded, outcome: Outcome) -> None:
    """Each end has its outcome."""
    assert outcome_of(said, None, None) == outcome


@pytest.mark.parametrize(
    "said",
    [
        ended(wire.SUCCEEDED, "\0"),
        *(ended(kind, when=when) for kind in (wire.RETRY_IN, wire.FAILED_IN) for when in (-1, inf, nan)),
        *(ended(wire.RETRY_AT, when=when) for when in (-inf, nan, 1e300)),
    ],
)
def test_what_can_not_be_kept_is_a_failure(said: wire.FunctionEnded) -> None:
    """A function that says nonsense in the name of its process has failed, and holds up nobody."""
    outcome = outcome_of(said, None, None)
    assert isinstance(outcome, Failed)
    assert "can't be kept" in outcome.error


@pytest.mark.parametrize("said", [ended(end) for end in wire.ENDS])
def test_an_end_that_was_asked_for_is_no_success(said: wire.FunctionEnded) -> None:
    """Whatever a function says after it was told to end, the reason of the order counts; the time-out before all."""
    reasons: dict[StopReason, Any] = {
        StopReason.CANCEL: Cancelled,
        StopReason.RELEASE: Released,
        StopReason.DISOWN: Released,
    }
    for reason, kind in reasons.items():
        assert isinstance(outcome_of(said, reason, None), kind)
        assert outcome_of(said, reason, 2.0) == TimedOut("it took longer than 2 s")


def test_neighbours_of_a_stuck_run_say_why_they_were_stopped() -> None:
    """With the number of the process, the run, and what it ignored."""
    assert killed_with_process(3, "0197", timed_out=True) == Lost(
        "Worker process 3 was stopped because run 0197 ignored its time-out."
    )
    assert killed_with_process(3, "0197", timed_out=False).reason == (
        "Worker process 3 was stopped because run 0197 ignored the order to end."
    )
