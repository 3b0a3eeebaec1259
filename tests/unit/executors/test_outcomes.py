"""From how a process ended to the outcome of its attempt."""

import pytest

from tokimori.executors.keeper.wire import EndCause, ProcessEnded
from tokimori.executors.reported import outcome_of, signal_name
from tokimori.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded, TimedOut
from tokimori.ports.executor import StopReason


def ended(cause: EndCause, status: int | None, error: str = "") -> ProcessEnded:
    """An end as the keeper tells it."""
    return ProcessEnded(number=1, at=0.0, status=status, cause=cause, error=error, size=0, head="", tail="")


@pytest.mark.parametrize(
    ("cause", "status", "reason", "outcome"),
    [
        (EndCause.EXIT, 0, None, Succeeded(0)),
        (EndCause.EXIT, 0, StopReason.CANCEL, Succeeded(0)),
        (EndCause.EXIT, 7, None, Failed("exit code 7", exit_code=7)),
        (EndCause.EXIT, -11, None, Failed("signal 11 (SIGSEGV)", signal=11)),
        (EndCause.NOT_STARTED, 127, None, Failed("no", exit_code=127)),
        (EndCause.NOT_STARTED, None, None, Failed("no")),
        (EndCause.TIMEOUT, -15, None, TimedOut("it took longer than 1.5 s", signal=15)),
        (EndCause.TIMEOUT, 0, StopReason.CANCEL, TimedOut("it took longer than 1.5 s", exit_code=0)),
        (EndCause.LEASE, -9, StopReason.CANCEL, Released("its node's lease ran out", signal=9)),
        (EndCause.STOP, 0, StopReason.CANCEL, Cancelled("cancelled", exit_code=0)),
        (EndCause.STOP, None, StopReason.CANCEL, Cancelled("cancelled")),
        (EndCause.STOP, -15, StopReason.RELEASE, Released("its node stopped it", signal=15)),
        (EndCause.STOP, -15, StopReason.DISOWN, Released("it is no longer its node's", signal=15)),
        (EndCause.STOP, -9, None, Released("its node stopped it", signal=9)),
    ],
)
def test_outcomes(cause: EndCause, status: int | None, reason: StopReason | None, outcome: Outcome) -> None:
    """The cause decides the kind of outcome; exit code and signal are always told; nothing that got a TERM succeeds."""
    assert outcome_of(ended(cause, status, "no"), reason, 1.5) == outcome


@pytest.mark.parametrize(
    ("cause", "status", "outcome"),
    [
        (EndCause.EXIT, 0, Failed("no luck", exit_code=0)),
        (EndCause.EXIT, 9, Failed("no luck", exit_code=9)),
        (EndCause.EXIT, -9, Failed("signal 9 (SIGKILL)", signal=9)),
        (EndCause.TIMEOUT, 0, TimedOut("it took longer than 1.5 s", exit_code=0)),
        (EndCause.LEASE, 0, Released("its node's lease ran out", exit_code=0)),
        (EndCause.STOP, 0, Released("its node stopped it", exit_code=0)),
    ],
)
def test_a_report_counts_where_the_command_ended_by_itself(cause: EndCause, status: int, outcome: Outcome) -> None:
    """What a command reports stands above its exit code, and below a signal, a time-out and an order to end."""
    assert outcome_of(ended(cause, status), None, 1.5, b'{"outcome": "failed", "error": "no luck"}') == outcome


@pytest.mark.parametrize(
    ("status", "reported", "outcome"),
    [
        (0, None, Failed("it did not say how it ended, as its job demands (auto_complete_success)", exit_code=0)),
        (7, None, Failed("exit code 7", exit_code=7)),
        (0, b'{"outcome": "succeeded"}', Succeeded(0)),
        (7, b'{"outcome": "succeeded"}', Succeeded(7)),
    ],
)
def test_without_automatic_completion_success_has_to_be_said(
    status: int, reported: bytes | None, outcome: Outcome
) -> None:
    """A silent exit code 0 is a failure where the job demands a report (Kōjō's auto_complete_success)."""
    assert outcome_of(ended(EndCause.EXIT, status), None, 1.5, reported, auto_complete_success=False) == outcome


def test_names_of_signals() -> None:
    """Signals are called as kill(1) calls them, real-time ones included."""
    assert [signal_name(number) for number in (9, 34, 35)] == ["SIGKILL", "SIGRTMIN", "SIGRTMIN+1"]
