"""Settlement of a run whose attempt has ended: one pure rule for every outcome."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import (
    Cancelled,
    Expired,
    Failed,
    Hold,
    Lost,
    Outcome,
    Released,
    RetryAt,
    RetryIn,
    Spawns,
    Succeeded,
    TimedOut,
)
from tokimori.model.policies import Retry
from tokimori.model.run import NEVER, Run
from tokimori.model.transitions import RunMove, RunState, move

LONGEST_DELAY = 3650 * 86400.0
"""Ten years, in seconds: an unbounded backoff must stay within the range of moments."""


def retry_delay(retry: Retry, failures: int, chance: float) -> int:
    """Return the microseconds to wait after the nth failure (n ≥ 1); `chance` in [0, 1) picks the jitter."""
    cap = LONGEST_DELAY if retry.cap is None else min(retry.cap, LONGEST_DELAY)
    try:
        delay = min(retry.delay * float(retry.backoff) ** (failures - 1), cap)
    except OverflowError:
        delay = cap if retry.delay else 0
    return round(delay * (1 + retry.jitter * chance) * SECOND)


def next_try(
    retry: Retry, *, nominal: Moment, failures: int, now: Moment, chance: float, wait: float | None = None
) -> Moment | None:
    """Return the time of the next try after the nth failure; None if attempts are used up, or epsilon has passed.

    `wait` is the failure's own, in seconds, in place of what the policy would say; its cap holds.
    """
    if failures >= retry.attempts:
        return None
    if wait is None:
        delay = retry_delay(retry, failures, chance)
    else:
        delay = round((wait if retry.cap is None else min(wait, retry.cap)) * SECOND)
    moment = Moment(now + delay)
    if retry.epsilon is not None and moment > nominal + round(retry.epsilon * SECOND):
        return None
    return moment


def after_wait(outcome: RetryIn | Released, retry: Retry, now: Moment) -> Moment:
    """Return the end of the wait of an attempt that ended now: the one that it requests, or that of its job."""
    wanted = outcome.seconds if isinstance(outcome, RetryIn) else None
    return Moment(now + round((retry.wait if wanted is None else wanted) * SECOND))


def asked_retry(run: Run, outcome: Outcome, retry: Retry, now: Moment) -> Outcome:
    """Return the outcome of a run's request for a retry: later if too soon, a failure if its budget is used up.

    Attempts that failed, were lost or never began use up nothing of the budget.
    """
    match outcome:
        case RetryAt(moment):
            wanted = moment
        case RetryIn():
            wanted = after_wait(outcome, retry, now)
        case _:
            return outcome
    if run.attempt - run.failures - run.lost - run.details.unbegun > retry.asked_retries:
        return Failed(f"it asked to be tried again more than {retry.asked_retries} times (retry.asked_retries)")
    return RetryAt(max(wanted, Moment(now + round(retry.asked_delay * SECOND))))


def after_asking(outcome: Outcome, retry: Retry) -> Retry:
    """Return the policy for a run that requests a retry: counted as a failure it waits no less than requested."""
    if not isinstance(outcome, RetryAt | RetryIn):
        return retry
    cap = None if retry.cap is None else max(retry.cap, retry.asked_delay)
    return replace(retry, delay=max(retry.delay, retry.asked_delay), cap=cap)


NEVER_AGAIN = "it is not begun again, as its job says (retry.lost_attempts = 0)"
NOT_COUNTED = "it does not count against this job yet"
WORDS: Mapping[type[Outcome], str] = MappingProxyType(
    {
        Succeeded: "succeeded",
        Cancelled: "cancelled",
        Expired: "expired",
        Failed: "failed",
        TimedOut: "timed out",
        Released: "released",
        Lost: "lost",
        Hold: "hold",
        RetryAt: "retry",
        RetryIn: "retry",
        Spawns: "waiting",
    }
)
"""The words for outcomes in the rows of attempts."""
_SUCCEED: Final = RunMove.SUCCEED
PARKED_BY = "tokimori"
"""Author of the parking of a job whose run has used up its retries, or whose schedule can't be decided."""


class Settlement(Struct, frozen=True, gc=False):
    """The finished values that a store writes for a run whose attempt has ended.

    `outcome` is the word kept with the attempt. `due` and `rank` are where the run waits next, if it goes on.
    """

    state: RunState
    outcome: str
    due: Moment
    rank: int
    failures: int
    lost: int
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None


def settle(run: Run, outcome: Outcome, retry: Retry, now: Moment, chance: float, *, begun: bool = True) -> Settlement:
    """Return the settlement of a running run. `chance` in [0, 1) picks the jitter of a retry.

    `begun` is false only if its living node knows that this attempt never began. If it may have begun, and its job
    allows no lost attempt, it is lost when it is taken from its node: it never begins again.

    An order to cancel wins over everything but success: the run was not to go on. So a release or a loss then cancels
    it too, with the reason of the order.
    """
    match outcome:
        case Succeeded():
            state, word = move(run.state, _SUCCEED), WORDS[type(outcome)]
            return Settlement(state, word, run.due, run.rank, run.failures, run.lost, outcome.exit_code)
        case Cancelled():
            return _cancelled(run, outcome, run.cancel or outcome.reason)
        case _ if run.cancel:
            return _cancelled(run, outcome, run.cancel)
        case Expired():
            return _settlement(run, RunMove.DROP, WORDS[type(outcome)], error=outcome.reason)
        case Failed() | TimedOut():
            return _failed(run, outcome, retry, now, chance)
        case RetryAt() | Spawns():
            due = NEVER if isinstance(outcome, Spawns) else max(outcome.moment, now)
            return _settlement(run, RunMove.RETRY, WORDS[type(outcome)], due=due)
        case RetryIn():
            return _settlement(run, RunMove.RETRY, WORDS[type(outcome)], due=after_wait(outcome, retry, now))
        case Hold():
            return _settlement(run, RunMove.HOLD, WORDS[type(outcome)], error=outcome.reason)
        case Released() if begun and not outcome.asked and retry.once_begun:
            return _lost(run, Lost(outcome.reason), retry)
        case Released():
            waits = outcome.asked and retry.wait > 0
            return _settlement(
                run,
                RunMove.RETRY if waits else RunMove.REQUEUE,
                WORDS[type(outcome)],
                due=after_wait(outcome, retry, now) if waits else None,
                error=outcome.reason,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
            )
        case Lost():
            return _lost(run, outcome, retry)
        case _:
            assert_never(outcome)


def _cancelled(run: Run, outcome: Outcome, reason: str) -> Settlement:
    match outcome:
        case Failed() | TimedOut() | Released() | Cancelled():
            exit_code, signal = outcome.exit_code, outcome.signal
        case _:
            exit_code, signal = None, None
    return _settlement(run, RunMove.CANCEL, WORDS[type(outcome)], error=reason, exit_code=exit_code, signal=signal)


def _failed(run: Run, outcome: Failed | TimedOut, retry: Retry, now: Moment, chance: float) -> Settlement:
    failures = run.failures + 1
    is_final, wait = (outcome.final, outcome.wait) if isinstance(outcome, Failed) else (False, None)
    again = (
        None if is_final else next_try(retry, nominal=run.nominal, failures=failures, now=now, chance=chance, wait=wait)
    )
    return _settlement(
        run,
        RunMove.FAIL if again is None else RunMove.RETRY,
        WORDS[type(outcome)],
        due=again,
        failures=failures,
        error=outcome.error,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
    )


def _lost(run: Run, outcome: Lost, retry: Retry) -> Settlement:
    """Return the settlement of a loss. It lowers the priority by one: a run that kills its nodes falls back.

    If no attempt may be lost, the run is not begun again, whatever the cause.
    """
    lost = run.lost + outcome.counts
    event = RunMove.REQUEUE if retry.may_lose(lost) else RunMove.FAIL
    then = NEVER_AGAIN if retry.once_begun else None if outcome.counts else NOT_COUNTED
    why = outcome.reason if then is None else f"{outcome.reason.rstrip('.')}; {then}"
    return _settlement(run, event, WORDS[type(outcome)], rank=run.rank + MINUTE, lost=lost, error=why)


def _settlement(
    run: Run,
    event: RunMove,
    outcome: str,
    *,
    due: Moment | None = None,
    rank: int | None = None,
    failures: int | None = None,
    lost: int | None = None,
    exit_code: int | None = None,
    signal: int | None = None,
    error: str | None = None,
) -> Settlement:
    later = 0 if due is None else due - run.due
    return Settlement(
        state=move(run.state, event),
        outcome=outcome,
        due=run.due if due is None else due,
        rank=run.rank + later if rank is None else rank,
        failures=run.failures if failures is None else failures,
        lost=run.lost if lost is None else lost,
        exit_code=exit_code,
        signal=signal,
        error=error,
    )


def parked(job: Job, reason: str | None) -> Job:
    """Return the job as parked by a failure. That is no edit: its version stays."""
    return replace(job, state=JobState.PARKED, reason=reason, by=PARKED_BY, next_due=None)
