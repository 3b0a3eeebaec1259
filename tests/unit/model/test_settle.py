"""What becomes of a run when an attempt has ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run, seconds
from tokimori.clock import MINUTE, Moment
from tokimori.errors import Bug
from tokimori.model.job import JobState
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
    Succeeded,
    TimedOut,
)
from tokimori.model.policies import Retry
from tokimori.model.settle import NEVER_AGAIN, NOT_COUNTED, PARKED_BY, parked, settle
from tokimori.model.transitions import ENDS, RunState

NOW = seconds(100)
TWICE = Retry(attempts=2, delay=30)

OUTCOMES: list[tuple[Outcome, str]] = [
    (Succeeded(exit_code=0), "succeeded"),
    (Failed("exit code 3", exit_code=3), "failed"),
    (RetryAt(seconds(500)), "retry"),
    (RetryIn(60), "retry"),
    (Hold("look at this"), "hold"),
    (Released("the node stops", signal=15), "released"),
    (Cancelled("enough", signal=15), "cancelled"),
    (TimedOut("longer than 5 s", signal=9), "timed out"),
    (Lost("node n died"), "lost"),
]
S = RunState
WITHOUT_RETRY = [S.SUCCEEDED, S.FAILED, S.WAITING, S.WAITING, S.HELD, S.READY, S.CANCELLED, S.FAILED, S.READY]
WITH_RETRY = [S.SUCCEEDED, S.WAITING, S.WAITING, S.WAITING, S.HELD, S.READY, S.CANCELLED, S.WAITING, S.READY]
ORDERED_TO_END = [S.SUCCEEDED] + 8 * [S.CANCELLED]


@pytest.mark.parametrize(
    ("outcome", "word", "without", "with_retry", "ordered"),
    [(*known, *states) for known, *states in zip(OUTCOMES, WITHOUT_RETRY, WITH_RETRY, ORDERED_TO_END, strict=True)],
)
def test_every_outcome(outcome: Outcome, word: str, without: RunState, with_retry: RunState, ordered: RunState) -> None:
    """Each outcome leads to one state, by whether a retry is left and whether an order to cancel was given."""
    assert settle(a_run(), outcome, Retry(lost_attempts=3), NOW, 0).state is without
    assert settle(a_run(), outcome, TWICE, NOW, 0).state is with_retry
    for retry in (Retry(), TWICE):
        found = settle(a_run(cancel="by me"), outcome, retry, NOW, 0)
        assert (found.state, found.outcome) == (ordered, word)


def test_a_final_failure_is_not_tried_again() -> None:
    """However many attempts are left, trying again can't help; the failure counts as any other."""
    found = settle(a_run(), Failed("404", final=True), TWICE, NOW, 0)
    assert (found.state, found.outcome, found.failures) == (S.FAILED, "failed", 1)


@pytest.mark.parametrize("outcome", [outcome for outcome, _ in OUTCOMES])
@pytest.mark.parametrize("state", sorted(ENDS))
def test_an_ended_run_is_not_settled(outcome: Outcome, state: RunState) -> None:
    """No outcome leads out of an end."""
    with pytest.raises(Bug):
        settle(a_run(state=state), outcome, TWICE, NOW, 0)


def test_a_retry_waits_and_keeps_its_place() -> None:
    """A retry is due after the delay; its rank moves along, so that what it lost or gained in priority stays."""
    found = settle(a_run(rank=NEW_YEAR + 7), Failed("no"), TWICE, NOW, 0)
    assert (found.due, found.failures, found.lost) == (seconds(130), 1, 0)
    assert found.rank - found.due == 7


def test_the_last_failure_keeps_the_moment() -> None:
    """A run that fails for good is counted, but goes nowhere."""
    found = settle(a_run(failures=1), Failed("no", exit_code=3), TWICE, NOW, 0)
    assert (found.state, found.due, found.rank, found.failures) == (RunState.FAILED, NEW_YEAR, NEW_YEAR, 2)
    assert (found.error, found.exit_code) == ("no", 3)


def test_a_run_that_expired_is_skipped_with_its_reason() -> None:
    """It has not begun: it counts as no failure, and no retry follows; an order to cancel it wins."""
    found = settle(a_run(), Expired("not begun by then"), TWICE, NOW, 0)
    assert (found.state, found.failures, found.error) == (RunState.SKIPPED, 0, "not begun by then")
    assert settle(a_run(cancel="by me"), Expired("late"), TWICE, NOW, 0).state is RunState.CANCELLED


def test_an_attempt_that_asks_to_be_held_says_why() -> None:
    """Its reason stays with the run; one that asks to be tried again is told from a failure."""
    assert settle(a_run(), Hold("look at this"), Retry(), NOW, 0).error == "look at this"
    assert settle(a_run(), RetryIn(60), Retry(), NOW, 0).outcome == "retry"


@pytest.mark.parametrize("retry", [Retry(), TWICE])
@pytest.mark.parametrize("outcome", [Failed("no", signal=11), TimedOut("late", signal=9)])
def test_a_failure_keeps_the_signal(outcome: Failed | TimedOut, retry: Retry) -> None:
    """Whether it is tried again or not, what ended its process is known."""
    assert settle(a_run(), outcome, retry, NOW, 0).signal == outcome.signal


def test_a_retry_later_than_epsilon_is_not_made() -> None:
    """Where the retry would come after nominal + epsilon, the run fails."""
    found = settle(a_run(), Failed("no"), Retry(attempts=9, delay=30, epsilon=120), NOW, 0)
    assert found.state is RunState.FAILED


def test_jitter_is_picked_by_chance() -> None:
    """The chance that is handed in picks the jitter of the retry."""
    assert settle(a_run(), Failed("no"), Retry(attempts=2, delay=30, jitter=1), NOW, 0.5).due == seconds(145)


def test_an_attempt_may_ask_how_long_to_wait() -> None:
    """The wait counts from the attempt's end, and no budget pays for it."""
    found = settle(a_run(rank=NEW_YEAR + 7), RetryIn(2.5), TWICE, NOW, 0)
    assert (found.due, found.rank - found.due, found.failures) == (NOW + 2_500_000, 7, 0)


@pytest.mark.parametrize(("asked", "due"), [(seconds(500), seconds(500)), (seconds(5), NOW)])
def test_an_attempt_may_ask_when(asked: Moment, due: Moment) -> None:
    """An attempt that asks to be tried again is, not before its moment and never in the past; no budget pays for it."""
    found = settle(a_run(), RetryAt(asked), Retry(), NOW, 0)
    assert (found.state, found.due, found.failures) == (RunState.WAITING, due, 0)
    assert found.rank - found.due == 0


def test_a_release_costs_nothing() -> None:
    """What a node gives back keeps its budgets, its due moment and its rank."""
    found = settle(a_run(failures=1, lost=2), Released("the node stops", exit_code=1, signal=15), TWICE, NOW, 0)
    assert (found.due, found.rank, found.failures, found.lost) == (NEW_YEAR, NEW_YEAR, 1, 2)
    assert (found.error, found.exit_code, found.signal) == ("the node stops", 1, 15)


@pytest.mark.parametrize(
    ("lost", "state"), [(0, RunState.READY), (2, RunState.READY), (3, RunState.FAILED), (9, RunState.FAILED)]
)
def test_lost_attempts_have_a_budget_of_their_own(lost: int, state: RunState) -> None:
    """Three lost attempts are forgiven, whatever the failures; each lowers the priority by one (DESIGN §5)."""
    found = settle(a_run(lost=lost, failures=7), Lost("node n died"), Retry(), NOW, 0)
    assert (found.state, found.lost, found.failures) == (state, lost + 1, 7)
    assert (found.due, found.rank, found.error) == (NEW_YEAR, NEW_YEAR + MINUTE, "node n died")


def test_lost_attempts_may_be_unlimited() -> None:
    """Then a run is begun again, however often it was lost."""
    found = settle(a_run(lost=10**6), Lost("node n died", 4), Retry(lost_attempts="unlimited"), NOW, 0)
    assert (found.state, found.lost) == (RunState.READY, 10**6 + 4)


def test_a_run_waits_where_it_names_no_moment() -> None:
    """Asked to be tried again, or given back by its function: after the job's wait, and no budget is used up."""
    retry = Retry(wait=30)
    for outcome in (RetryIn(None), Released("not mine", asked=True)):
        found = settle(a_run(failures=1, lost=2), outcome, retry, NOW, 0)
        assert (found.state, found.due, found.failures, found.lost) == (RunState.WAITING, seconds(130), 1, 2)
    assert settle(a_run(), RetryIn(5), retry, NOW, 0).due == seconds(105)
    assert settle(a_run(), RetryIn(0), retry, NOW, 0).due == NOW


@pytest.mark.parametrize(
    ("outcome", "retry"),
    [(Released("its node stops"), Retry(wait=30)), (Released("not mine", asked=True), Retry())],
    ids=["by its node", "without a wait"],
)
def test_other_releases_wait_for_nothing(outcome: Outcome, retry: Retry) -> None:
    """What a node gives back is ready at once."""
    found = settle(a_run(), outcome, retry, NOW, 0)
    assert (found.state, found.due) == (RunState.READY, NEW_YEAR)


def test_no_lost_attempt_is_forgiven_where_the_job_says_so() -> None:
    """A job that must never be executed twice allows no lost attempt."""
    for counts in (0, 1):
        found = settle(a_run(), Lost("node n died", counts), Retry(lost_attempts=0), NOW, 0)
        assert found.state is RunState.FAILED


NEVER = Retry(attempts=2, lost_attempts=0)
ITS_OWN = {"failed", "timed out", "retry", "hold"}
"""Words of ends for which the attempt itself, or its own program, has to answer."""


@given(st.sampled_from(OUTCOMES), st.booleans(), st.sampled_from([None, "by me"]), st.integers(0, 9))
def test_nothing_from_outside_begins_a_run_again_against_its_word(
    known: tuple[Outcome, str], begun: bool, cancel: str | None, lost: int
) -> None:
    """Once begun it goes on only by its own failure or wish; what nobody began is given back, and costs nothing."""
    outcome, word = known
    found = settle(a_run(lost=lost, cancel=cancel), outcome, NEVER, NOW, 0, begun=begun)
    unbegun = word == "released" and not begun
    assert found.state in ENDS or (cancel is None and (word in ITS_OWN or unbegun))
    assert found.lost == lost + (cancel is None and (word == "lost" or (word == "released" and begun)))


def test_what_is_taken_from_such_a_run_is_its_reason() -> None:
    """It fails as lost, with the cause and its job's word; given back by its own function it goes on."""
    found = settle(a_run(), Released("its node stops"), NEVER, NOW, 0)
    assert (found.state, found.outcome) == (RunState.FAILED, "lost")
    assert found.error == f"its node stops; {NEVER_AGAIN}"
    assert settle(a_run(), Released("not mine", asked=True), NEVER, NOW, 0).state is RunState.READY
    assert settle(a_run(), Released("its node stops"), TWICE, NOW, 0).state is RunState.READY


@pytest.mark.parametrize(
    ("counts", "lost", "state"), [(0, 3, RunState.READY), (1, 4, RunState.FAILED), (4, 7, RunState.FAILED)]
)
def test_a_loss_says_how_much_it_counts(counts: int, lost: int, state: RunState) -> None:
    """One for which somebody else may be to blame costs nothing but a minute of rank; one may count for several."""
    found = settle(a_run(lost=3), Lost("its keeper died", counts), Retry(), NOW, 0)
    assert (found.state, found.lost, found.rank) == (state, lost, NEW_YEAR + MINUTE)


@pytest.mark.parametrize("reason", ["its keeper died, beside other jobs (pid 7)", "its worker process died."])
def test_the_reason_of_a_loss_says_one_thing_of_what_comes(reason: str) -> None:
    """Either that it is not begun again, or that the loss does not count yet; never both."""
    for counts, retry, then in ((0, NEVER, NEVER_AGAIN), (1, NEVER, NEVER_AGAIN), (0, Retry(), NOT_COUNTED)):
        assert settle(a_run(), Lost(reason, counts), retry, NOW, 0).error == f"{reason.rstrip('.')}; {then}"
    assert settle(a_run(), Lost(reason), Retry(), NOW, 0).error == reason


def test_who_ordered_the_end_gives_the_reason() -> None:
    """A cancelled run keeps the reason of whoever ordered it, and how its process ended."""
    for outcome in (Cancelled("stopped", signal=15), Failed("no", signal=15), Released("the node stops", signal=15)):
        found = settle(a_run(cancel="by me"), outcome, TWICE, NOW, 0)
        assert (found.error, found.signal) == ("by me", 15)


def test_an_executor_may_cancel_by_itself() -> None:
    """An attempt that was cancelled without an order keeps its own reason."""
    found = settle(a_run(), Cancelled("stopped", exit_code=1, signal=15), TWICE, NOW, 0)
    assert (found.state, found.error, found.exit_code, found.signal) == (RunState.CANCELLED, "stopped", 1, 15)


def test_success_keeps_the_exit_code() -> None:
    """A success is no error, and says how it ended."""
    found = settle(a_run(failures=1), Succeeded(exit_code=0), TWICE, NOW, 0)
    assert (found.error, found.exit_code, found.failures, found.due) == (None, 0, 1, NEW_YEAR)


def test_a_failure_parks_a_job() -> None:
    """Parking stops the job with its reason, and is no edit: the version stays."""
    job = a_job(a_definition(), next_due=seconds(60))
    stopped = parked(job, "exit code 3")
    assert (stopped.state, stopped.reason, stopped.by) == (JobState.PARKED, "exit code 3", PARKED_BY)
    assert (stopped.version, stopped.next_due) == (job.version, None)
