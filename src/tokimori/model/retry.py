"""When a failed attempt is tried again: arithmetic only."""

from tokimori.clock import SECOND, Moment
from tokimori.model.policies import Retry

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
    """When to try again after the nth failure, or None: the attempts are used up, or it would be after epsilon."""
    if failures >= retry.attempts:
        return None
    moment = Moment(now + retry_delay(retry, failures, chance))
    if retry.epsilon is not None and moment > nominal + round(retry.epsilon * SECOND):
        return None
    return moment
