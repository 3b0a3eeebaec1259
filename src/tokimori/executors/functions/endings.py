"""From how an attempt of a function ended to its outcome. Pure."""

from collections.abc import Sequence

from tokimori.clock import FIRST, LAST, Moment
from tokimori.errors import InvalidInput
from tokimori.executors.functions import wire
from tokimori.executors.functions.process import Assignment
from tokimori.executors.keeper_deaths import some
from tokimori.executors.outcomes import short_of, stopped
from tokimori.model.outcome import Failed, Hold, Lost, Outcome, Released, RetryAt, RetryIn, Succeeded, TimedOut
from tokimori.model.policies import LONGEST
from tokimori.model.words import check_text
from tokimori.ports.executor import AttemptTask, StopReason

_TIMES = {wire.RETRY_IN: (0, LONGEST), wire.RETRY_AT: (FIRST, LAST)}
"""The first and the last that an end may name."""
_SUCCEEDED = Succeeded()
"""Most ends bring no result; of those there may be thousands a second."""


def outcome_of(ended: wire.FunctionEnded, reason: StopReason | None, timeout: float | None) -> Outcome:
    """Return the outcome of an attempt that a worker process reports. `timeout`: its time was over.

    Only an end that nobody asked for can be a success: a function that returns after it was told to end may have left
    its work undone.
    """
    if timeout is not None:
        return TimedOut(f"it took longer than {timeout:g} s")
    if reason is not None:
        return stopped(reason)
    if ended.end == wire.SUCCEEDED and ended.text is None:
        return _SUCCEEDED
    text = ended.text or ""
    if fault := _nonsense(ended):
        return Failed(f"its worker process said what can't be kept: {fault}")
    match ended.end:
        case wire.SUCCEEDED:
            return Succeeded(None, ended.text)
        case wire.RETRY:
            return RetryIn(None)
        case wire.RETRY_IN:
            return RetryIn(ended.when)
        case wire.RETRY_AT:
            return RetryAt(Moment(int(ended.when)))
        case wire.HELD:
            return Hold(text)
        case wire.RELEASED:
            return Released(text, asked=True)
        case wire.SHORT:
            return short_of(text)
        case _:
            return Failed(text, final=ended.end == wire.UNFIT)


def _nonsense(ended: wire.FunctionEnded) -> str | None:
    """Return the fault of a report that no worker process of ours sends: a function can say anything in its name."""
    try:
        check_text("text", ended.text or "")
    except InvalidInput:
        return "a text with characters that no store keeps"
    most = _TIMES.get(ended.end)
    if most is not None and not most[0] <= ended.when <= most[1]:
        return f"{ended.end} {ended.when:g}"
    return None


def killed_beside(number: int, blamed: str, *, timed_out: bool) -> Lost:
    """Return the outcome of an attempt whose process was killed because of another one."""
    ignored = "its time-out" if timed_out else "the order to end"
    return Lost(f"Worker process {number} was stopped because run {blamed} ignored {ignored}.")


def died_beside(
    how: str, task: AttemptTask, lost: Sequence[AttemptTask], counts: int, culprit: Assignment | None
) -> Lost:
    """Return the outcome of an attempt that was `lost` with its process, which the `culprit` ended, or any of these."""
    if culprit is not None:
        return Lost(f"its worker process was ended by run {culprit.task.run_id} ({how})", counts)
    others = some([f"run {each.run_id}" for each in lost if each is not task])
    beside = f"; beside it ran {others}" if others else ""
    return Lost(f"its worker process died ({how}){beside}", counts)
