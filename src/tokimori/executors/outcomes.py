"""Outcomes of attempts from how their processes ended, and reports of deaths of keepers. Pure."""

import signal
from collections.abc import Sequence

from tokimori.executors.keeper.wire import EndCause, ProcessEnded
from tokimori.executors.reported import outcome_from
from tokimori.model.outcome import Cancelled, Failed, Lost, Outcome, Released, Succeeded, TimedOut
from tokimori.model.suspicion import Judgement
from tokimori.ports.executor import AttemptTask, StopReason

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
        case EndCause.NOT_STARTED | EndCause.COST:
            return Failed(ended.error, exit_code, number)
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


MOST_NAMED = 10
"""Runs, or jobs, that one line names."""


def lost_with(pid: int, status: int, task: AttemptTask, judged: Judgement) -> Lost:
    """Return the outcome of an attempt whose keeper died."""
    counts = judged.counts.get(task.run_id, 1)
    beside = "" if counts else ", beside other jobs"
    return Lost(f"its keeper died{beside} ({how(pid, status)})", counts)


def said_of(kind: str, name: str, how: str, tasks: Sequence[AttemptTask], judged: Judgement) -> list[str]:
    """Return lines for the log: a keeper, or another process of this `kind`, has died."""
    lines = [f"a {kind} died ({how}); lost with it: {runs_of(tasks)}"]
    if judged.culprit is not None:
        lines.append(f"only job {judged.culprit} ran when {name} died: look at what its runs end")
    elif judged.suspects:
        names, kinds = some(judged.suspects), f"{kind}es" if kind.endswith("s") else f"{kind}s"
        lines.append(f"these jobs ran when several {kinds} died, and get {kinds} of their own: {names}")
    return lines


def runs_of(tasks: Sequence[AttemptTask]) -> str:
    """Return these runs in words, at most `MOST_NAMED` of them."""
    return some([f"run {task.run_id} of {task.job_id}" for task in tasks]) or "nothing"


def how(pid: int, status: int) -> str:
    """Return which keeper died, and how."""
    ending = f"exit code {status}" if status >= 0 else f"signal {-status}, {signal_name(-status)}"
    return f"pid {pid}, {ending}"


def some(names: Sequence[str]) -> str:
    """Return the first names, at most `MOST_NAMED`, and how many more there are."""
    more, found = len(names) - MOST_NAMED, ", ".join(names[:MOST_NAMED])
    return found if more <= 0 else f"{found} and {more} more"
