"""When a failed attempt is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_run, seconds
from tokimori.clock import SECOND, to_datetime
from tokimori.model.job_fields import LONGEST
from tokimori.model.outcome import Failed, Hold, Outcome, RetryAt, RetryIn, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.run import Details
from tokimori.model.settle import LONGEST_DELAY, after_asking, asked_retry, next_try, retry_delay, settle
from tokimori.model.transitions import RunState


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(), [0, 0, 0]),
        (Retry(delay=10), [10, 10, 10]),
        (Retry(delay=10, backoff=2), [10, 20, 40, 80]),
        (Retry(delay=10, backoff=2, cap=35), [10, 20, 35, 35]),
        (Retry(delay=10, cap=5), [5, 5]),
        (Retry(delay=0.25, backoff=1.5), [0.25, 0.375, 0.5625]),
        (Retry(delay=10, cap=0), [0, 0]),
    ],
)
def test_delays(retry: Retry, delays: list[float]) -> None:
    """The nth retry waits delay × backoff^(n-1), at most cap."""
    assert [retry_delay(retry, n, 0) for n in range(1, len(delays) + 1)] == [round(d * SECOND) for d in delays]


@pytest.mark.parametrize(("chance", "delay"), [(0, 100), (0.5, 105), (0.999, 109.99)])
def test_jitter_adds_a_part_of_the_delay(chance: float, delay: float) -> None:
    """Jitter adds up to its share of the delay, as chance has it."""
    assert retry_delay(Retry(delay=100, jitter=0.1), 1, chance) == round(delay * SECOND)


def test_jitter_comes_after_the_cap() -> None:
    """Capped retries are still spread: jitter is added to the capped delay."""
    assert retry_delay(Retry(delay=1000, cap=100, jitter=1), 1, 0.5) == 150 * SECOND


@pytest.mark.parametrize("backoff", [1, 1.5, 2, 1e300])
@pytest.mark.parametrize("failures", [1, 2, 10_000, 10**9])
def test_no_delay_stays_none(backoff: float, failures: int) -> None:
    """Without a delay every retry comes at once, however often it was tried and whatever the backoff."""
    assert retry_delay(Retry(backoff=backoff), failures, 0.5) == 0


@pytest.mark.parametrize("backoff", [2, 2.0, 1e308])
def test_a_huge_backoff_ends_at_ten_years(backoff: float) -> None:
    """A backoff that no float can hold waits for the cap, or ten years."""
    assert retry_delay(Retry(delay=1, backoff=backoff), 5_000, 0) == LONGEST_DELAY * SECOND
    assert retry_delay(Retry(delay=1, backoff=backoff, cap=60), 5_000, 0) == 60 * SECOND


@given(
    retry=st.builds(
        Retry,
        attempts=st.just(1_000_000),
        delay=st.floats(0, LONGEST),
        backoff=st.floats(1, 1e308),
        cap=st.none() | st.floats(0, LONGEST),
        jitter=st.floats(0, 1),
    ),
    failures=st.integers(1, 999_999),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_any_policy_gives_a_date(retry: Retry, failures: int, chance: float) -> None:
    """Whatever a definition may hold, the next try is a moment that has a date, and not in the past."""
    moment = next_try(retry, nominal=NEW_YEAR, failures=failures, now=NEW_YEAR, chance=chance)
    assert moment is not None
    assert moment >= NEW_YEAR
    assert to_datetime(moment).year <= 2051


@given(delay=st.floats(0, 1e6), backoff=st.floats(1, 100), n=st.integers(1, 500))
def test_delays_never_shrink(delay: float, backoff: float, n: int) -> None:
    """A later retry never waits less than an earlier one."""
    retry = Retry(delay=delay, backoff=backoff)
    assert retry_delay(retry, n, 0) <= retry_delay(retry, n + 1, 0)


@pytest.mark.parametrize(("failures", "again"), [(1, True), (2, True), (3, False), (4, False)])
def test_attempts_count_the_first_try(failures: int, again: bool) -> None:
    """Three attempts are two retries."""
    found = next_try(Retry(attempts=3, delay=5), nominal=NEW_YEAR, failures=failures, now=seconds(7), chance=0)
    assert found == (seconds(12) if again else None)


@pytest.mark.parametrize(("now", "again"), [(49, True), (50, True), (50.000001, False), (200, False)])
def test_none_comes_later_than_epsilon(now: float, again: bool) -> None:
    """A retry later than nominal + epsilon is not made; one at that very moment is."""
    retry = Retry(attempts=9, delay=10, epsilon=60)
    found = next_try(retry, nominal=NEW_YEAR, failures=1, now=seconds(now), chance=0)
    assert (found is not None) == again


def test_epsilon_holds_with_jitter() -> None:
    """Jitter can't push a retry beyond epsilon."""
    retry = Retry(attempts=9, delay=10, jitter=1, epsilon=15)
    assert next_try(retry, nominal=NEW_YEAR, failures=1, now=NEW_YEAR, chance=0.4) == seconds(14)
    assert next_try(retry, nominal=NEW_YEAR, failures=1, now=NEW_YEAR, chance=0.6) is None


@pytest.mark.parametrize(
    ("outcome", "retry", "due"),
    [
        (RetryIn(0), Retry(), 11),
        (RetryIn(0.5), Retry(), 11),
        (RetryIn(5), Retry(), 15),
        (RetryAt(seconds(3)), Retry(), 11),
        (RetryAt(seconds(20)), Retry(), 20),
        (RetryIn(0), Retry(asked_delay=0), 10),
        (RetryIn(0.25), Retry(asked_delay=0.25), 10.25),
        (RetryIn(1), Retry(asked_delay=60), 70),
    ],
)
def test_a_run_that_asks_to_be_tried_again_waits_a_while(outcome: Outcome, retry: Retry, due: float) -> None:
    """A second at least, unless its job says otherwise: no run keeps a node busy with nothing else."""
    assert asked_retry(a_run(attempt=1), outcome, retry, seconds(10)) == RetryAt(seconds(due))


def test_who_names_no_moment_waits_as_its_job_says() -> None:
    """For `wait`, but never shorter than `asked_delay`."""
    assert asked_retry(a_run(), RetryIn(None), Retry(wait=30), seconds(10)) == RetryAt(seconds(40))
    assert asked_retry(a_run(), RetryIn(None), Retry(), seconds(10)) == RetryAt(seconds(11))
    assert asked_retry(a_run(), RetryIn(2), Retry(wait=30), seconds(10)) == RetryAt(seconds(12))


def test_asking_has_an_end() -> None:
    """Attempts that failed or were lost have budgets of their own; then asking is a failure, which counts as one."""
    retry = Retry(asked_retries=3)
    for attempt in (1, 2, 3):
        assert isinstance(asked_retry(a_run(attempt=attempt), RetryIn(5), retry, seconds(0)), RetryAt)
    assert isinstance(asked_retry(a_run(attempt=6, failures=2, lost=1), RetryIn(5), retry, seconds(0)), RetryAt)
    given_back = a_run(attempt=7, details=Details(unbegun=4))
    assert isinstance(asked_retry(given_back, RetryIn(5), retry, seconds(0)), RetryAt)
    found = asked_retry(a_run(attempt=4), RetryIn(5), retry, seconds(0))
    assert found == Failed("it asked to be tried again more than 3 times (retry.asked_retries)")
    assert isinstance(asked_retry(a_run(attempt=1), RetryIn(5), Retry(asked_retries=0), seconds(0)), Failed)
    for other in (Succeeded(0), Hold("look"), Failed("no")):
        assert asked_retry(a_run(attempt=2_000), other, Retry(), seconds(0)) == other


@pytest.mark.parametrize("cap", [None, 0, 5])
def test_who_asks_beyond_its_budget_is_no_faster(cap: float | None) -> None:
    """What is a failure then waits as long as a wish does; other failures wait as their job says."""
    retry = Retry(attempts=1_000_000, cap=cap, asked_delay=2, asked_retries=0)
    slow = after_asking(RetryIn(0), retry)
    assert [next_try(slow, nominal=NEW_YEAR, failures=n, now=NEW_YEAR, chance=0) for n in (1, 2)] == [seconds(2)] * 2
    assert after_asking(Failed("no"), retry) == retry
    assert after_asking(RetryAt(NEW_YEAR), Retry(delay=9)).delay == 9


@pytest.mark.parametrize(
    ("retry", "wait", "found"),
    [
        (Retry(attempts=3, delay=5), 60.0, 60),
        (Retry(attempts=3, delay=5), 0.0, 0),
        (Retry(attempts=3, delay=5, cap=30), 60.0, 30),
        (Retry(attempts=3, delay=5, cap=0), 60.0, 0),
        (Retry(attempts=3, epsilon=59), 60.0, None),
        (Retry(attempts=1), 60.0, None),
    ],
)
def test_a_failure_says_its_own_wait(retry: Retry, wait: float, found: int | None) -> None:
    """The wait of a failure stands in place of the policy's; cap, epsilon and attempts hold as ever."""
    settled = settle(a_run(state=RunState.RUNNING, attempt=1), Failed("x", wait=wait), retry, NEW_YEAR, 0)
    assert (settled.state, settled.due) == (
        (RunState.FAILED, settled.due) if found is None else (RunState.WAITING, seconds(found))
    )
