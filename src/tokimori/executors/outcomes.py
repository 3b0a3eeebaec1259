"""From how a process ended to the outcome of its attempt. Pure."""

import signal

from tokimori.executors.keeper.wire import EndCause, ProcessEnded
from tokimori.executors.reported import outcome_from
from tokimori.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded, TimedOut
from tokimori.ports.executor import StopReason

UNSAID = "it did not say how it ended, as its job demands (auto_complete_success)"


def outcome_of(
    ended: ProcessEnded,
    reason: StopReason | None,
    timeout: float | None,
    reported: bytes | None = None,
    *,
    auto_complete_success: bool = True,
) -> Outcome:
    """Return the outcome of an attempt. A signal counts more than its report, and that more than its exit code.

    Without `auto_complete_success` exit code 0 alone says nothing (Kōjō). Only an end that nobody asked for can be a
    success: a process that exits with 0 *after* a TERM has reached it may have left its work undone. `reason` is why
    the engine stopped it, None where the keeper did so by itself.
    """
    exit_code, number = _split(ended.status)
    match EndCause(ended.cause):
        case EndCause.EXIT:
            return _own_end(exit_code, number, reported, auto_complete_success=auto_complete_success)
        case EndCause.NOT_STARTED:
            return Failed(ended.error, exit_code)
        case EndCause.SHORT:
            return short_of(ended.error)
        case EndCause.TIMEOUT:
            return TimedOut(f"it took longer than {timeout:g} s", exit_code, number)
        case EndCause.LEASE:
            return Released("its node's lease ran out", exit_code, number)
        case EndCause.STOP:
            return stopped(reason, exit_code, number)


def _own_end(
    exit_code: int | None, number: int | None, reported: bytes | None, *, auto_complete_success: bool
) -> Outcome:
    if number is not None:
        return Failed(f"signal {number} ({signal_name(number)})", signal=number)
    if reported is not None:
        return outcome_from(reported, exit_code)
    if exit_code != 0:
        return Failed(f"exit code {exit_code}", exit_code)
    return Succeeded(0) if auto_complete_success else Failed(UNSAID, 0)


def short_of(why: object) -> Released:
    """Return what became of an attempt that did not begin, as its machine lacked what that takes."""
    return Released(f"this machine is short of processes, threads, files or memory: {why}", short=True)


def stopped(reason: StopReason | None, exit_code: int | None = None, number: int | None = None) -> Outcome:
    """Return the outcome of an attempt that was stopped; `number` is that of the signal that ended it, if one did."""
    match reason:
        case StopReason.CANCEL:
            return Cancelled("cancelled", exit_code, number)
        case StopReason.RELEASE | None:
            return Released("its node stopped it", exit_code, number)
        case StopReason.RESTART:
            return Released("it was restarted", exit_code, number)
        case StopReason.DISOWN:
            return Released("it is no longer its node's", exit_code, number)


def signal_name(number: int) -> str:
    """SIGKILL for 9; real-time signals have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def _split(status: int | None) -> tuple[int | None, int | None]:
    """Exit code and signal."""
    if status is None:
        return None, None
    return (status, None) if status >= 0 else (None, -status)
