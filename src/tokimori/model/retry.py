"""Time of the next try after a failure: arithmetic only."""

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.model.outcome import Failed, Outcome, Released, RetryAt, RetryIn
from tokimori.model.policies import Retry
from tokimori.model.run import Run

LONGEST_DELAY = 3650 * 86400.0
"""Ten years, in seconds: an unbounded backoff must not leave what a moment can hold."""


def retry_delay(retry: Retry, failures: int, chance: float) -> int:
    """Microseconds to wait after the nth failure (n ≥ 1); `chance` in [0, 1) picks the jitter."""
    cap = LONGEST_DELAY if retry.cap is None else min(retry.cap, LONGEST_DELAY)
    try:
        delay = min(retry.delay * float(retry.backoff) ** (failures - 1), cap)
    except OverflowError:
        delay = cap if retry.delay else 0
    return round(delay * (1 + retry.jitter * chance) * SECOND)


def next_try(retry: Retry, *, nominal: Moment, failures: int, now: Moment, chance: float) -> Moment | None:
    """Return the time of the next try after the nth failure; None if attempts are used up, or epsilon has passed."""
    if failures >= retry.attempts:
        return None
    moment = Moment(now + retry_delay(retry, failures, chance))
    if retry.epsilon is not None and moment > nominal + round(retry.epsilon * SECOND):
        return None
    return moment


def after_wait(outcome: RetryIn | Released, retry: Retry, now: Moment) -> Moment:
    """Return the end of the wait for which an attempt that ended now asks, or which its job says."""
    said = outcome.seconds if isinstance(outcome, RetryIn) else None
    return Moment(now + round((retry.wait if said is None else said) * SECOND))


def asked_retry(run: Run, outcome: Outcome, retry: Retry, now: Moment) -> Outcome:
    """Return the outcome of a run's wish to be tried again: later if too soon, a failure if its budget is used up.

    What counts is every attempt that neither failed nor was lost, without those of which the details say that nobody
    began them.
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
    """Return the policy for a run that asks to be tried again: what then counts as a failure waits no less than its
    wish.
    """
    if not isinstance(outcome, RetryAt | RetryIn):
        return retry
    cap = None if retry.cap is None else max(retry.cap, retry.asked_delay)
    return replace(retry, delay=max(retry.delay, retry.asked_delay), cap=cap)
