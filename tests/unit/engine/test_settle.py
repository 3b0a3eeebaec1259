"""From what an executor reports to the change that the store writes."""

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_definition, a_run, seconds
from tokimori.engine.settle import change_of
from tokimori.model.cause import LONGEST_CAUSE
from tokimori.model.ids import JobId, NodeId, RunId, Token
from tokimori.model.outcome import (
    Cancelled,
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
from tokimori.model.run import Attempt, Details, Output, Run
from tokimori.model.transitions import RunState
from tokimori.ports.working import Change, Claimed

NODE = NodeId("n")
CLAIMED = Claimed(run=a_run(token=Token(4), node_id=NODE), definition=a_definition(retry=Retry(attempts=3, delay=10)))


def change(outcome: Outcome, claimed: Claimed = CLAIMED, *, began: bool = True) -> Change:
    """The change for an attempt that ran from second 1 to 5, or never began."""
    started, pid = (seconds(1), 42) if began else (None, None)
    return change_of(claimed, outcome, owner=NODE, now=seconds(5), chance=0.0, started=started, pid=pid)


def test_a_change_is_finished() -> None:
    """The change names the run and its claim, and holds every value that the store has to write."""
    output = Output(run_id=RunId("run"), attempt=1, size=2, head=b"no")
    found = change_of(
        CLAIMED,
        Failed("exit code 3", 3),
        owner=NODE,
        now=seconds(5),
        chance=0,
        started=seconds(1),
        pid=42,
        output=output,
    )
    attempt = Attempt(
        run_id=RunId("run"),
        number=1,
        token=Token(4),
        node_id=NODE,
        outcome="failed",
        pid=42,
        started=seconds(1),
        ended=seconds(5),
        exit_code=3,
        error="exit code 3",
    )
    run = CLAIMED.run
    assert found == Change(
        run_id=run.id,
        job_id=run.job_id,
        incarnation=run.incarnation,
        owner=NODE,
        token=Token(4),
        state=RunState.WAITING,
        due=seconds(15),
        rank=seconds(15),
        failures=1,
        lost=0,
        ended=seconds(5),
        started=seconds(1),
        pid=42,
        exit_code=3,
        error="exit code 3",
        attempt=attempt,
        output=output,
        details=Details(begun=seconds(1)),
    )


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Failed("no"), "failed"),
        (TimedOut("late"), "timed out"),
        (RetryAt(seconds(9)), "retry"),
        (Hold("look"), "hold"),
        (Released("stop"), "released"),
        (Cancelled("enough"), "cancelled"),
        (Lost("died"), "lost"),
    ],
)
def test_all_but_a_first_success_has_a_row(outcome: Outcome, word: str) -> None:
    """An attempt that began and did not succeed at first go is kept, by its number and with its outcome."""
    row = change(outcome).attempt
    assert row is not None
    assert (row.number, row.outcome, row.started, row.ended, row.pid) == (1, word, seconds(1), seconds(5), 42)


def test_a_first_success_has_no_row() -> None:
    """The run itself tells of a first attempt that succeeded: one row version less (DESIGN §5)."""
    assert change(Succeeded(0)).attempt is None


def test_a_later_success_has_one() -> None:
    """Where other attempts came before, the one that succeeded is listed with them."""
    row = change(Succeeded(0), replace(CLAIMED, run=a_run(attempt=2))).attempt
    assert row is not None
    assert (row.number, row.outcome, row.exit_code) == (2, "succeeded", 0)


def test_what_never_began_has_no_row() -> None:
    """A claim that was given back before anything started was no try at the run."""
    assert change(Released("the node stops"), began=False).attempt is None
    assert change(Released("the node stops"), replace(CLAIMED, run=a_run(cancel="by me")), began=False).attempt is None


@pytest.mark.parametrize("outcome", [Failed("no such program"), Lost("died")])
def test_what_could_not_begin_has_one(outcome: Outcome) -> None:
    """An attempt that could not start, or whose node died before it told, is a try all the same."""
    assert change(outcome, began=False).attempt is not None


def test_without_a_job_nothing_is_retried() -> None:
    """Where the job is gone there is no policy: a failure is final."""
    assert change(Failed("no"), Claimed(run=CLAIMED.run, definition=None)).state is RunState.FAILED
    assert change(Failed("no")).due != NEW_YEAR


@pytest.mark.parametrize("outcome", [Failed("a\udcffb\0"), Released("a\udcffb\0"), Cancelled("a\udcffb\0")])
def test_an_error_can_be_stored(outcome: Outcome) -> None:
    """Whatever an executor says, a text that a database can hold comes of it, in the run and in the attempt."""
    found = change(outcome)
    assert found.error == r"a\udcffb\0"
    assert found.attempt is not None
    assert found.attempt.error == found.error


def test_only_an_attempt_that_began_asks_for_itself() -> None:
    """One that its node puts off, because it has no units for it, neither waits longer for that nor uses a budget."""
    begun = change(RetryIn(0))
    assert begun.due == seconds(6)
    assert change(RetryIn(0), began=False).due == seconds(5)


def test_asking_without_end_never_begins_at_once() -> None:
    """Beyond the budget it is a failure: the job's own retries, which may come at once, then wait as the wish did."""
    impatient = a_definition(retry=Retry(attempts=1_000_000, asked_retries=2))
    for attempt, failures in ((1, 0), (2, 0), (3, 0), (4, 1), (900, 897)):
        run = a_run(token=Token(4), node_id=NODE, attempt=attempt, failures=failures)
        found = change(RetryIn(0), Claimed(run=run, definition=impatient))
        assert (found.state, found.due) == (RunState.WAITING, seconds(6))
        assert found.failures == (failures + 1 if attempt > 2 else 0)


def test_what_a_job_gave_stays_with_the_run() -> None:
    """From the end of its first attempt on: a retry gets the same, and who looks later sees it."""
    definition = a_definition(payload="1", retry=Retry(attempts=2))
    claimed = replace(CLAIMED, definition=definition, run=a_run(details=Details(tzdata="2030a")))
    assert change(Failed("no"), claimed).details == Details(tzdata="2030a", payload="1", begun=seconds(1))
    again = replace(claimed, run=a_run(details=Details(payload="0")))
    assert change(Succeeded(0), again).details is None


@pytest.mark.parametrize(
    "run", [a_run(payload="{}"), a_run(details=Details(as_stored='{"of":"a newer version"}'))], ids=["its own", "newer"]
)
def test_nothing_is_noted_of_a_run_that_got_nothing_of_its_job(run: Run) -> None:
    """It has a payload of its own, or facts that this version can't read, or it never began: its begin alone is."""
    claimed = replace(CLAIMED, definition=a_definition(payload="1", retry=Retry(attempts=2)), run=run)
    assert change(Failed("no"), claimed).details == (Details(begun=seconds(1)) if run.payload else None)
    assert change(Failed("no such file"), replace(claimed, run=a_run()), began=False).details is None


def test_what_nobody_began_is_counted() -> None:
    """What this version can't read stays as it is; who died, or failed, has a budget of its own."""
    for back in (Released("stop"), RetryIn(2)):
        assert change(back, began=False).details == Details(unbegun=1)
        again = replace(CLAIMED, run=replace(CLAIMED.run, details=Details(tzdata="2030a", unbegun=1)))
        assert change(back, again, began=False).details == Details(tzdata="2030a", unbegun=2)
        newer = replace(CLAIMED, run=replace(CLAIMED.run, details=Details(as_stored='{"of":"a newer version"}')))
        assert change(back, newer, began=False).details is None
        assert change(back).details == Details(begun=seconds(1))
    assert change(Lost("its node died"), began=False).details is None


def test_what_nobody_began_uses_no_budget() -> None:
    """A run that its nodes gave back again and again may still ask to be tried again, as often as its job says."""
    once, given_back = a_definition(retry=Retry(asked_retries=1)), a_run(token=Token(4), node_id=NODE)
    for attempt in range(1, 8):
        unbegun = change(Released("no place"), Claimed(run=given_back, definition=once), began=False)
        assert unbegun.details is not None
        given_back = replace(given_back, attempt=attempt + 1, details=unbegun.details)
    asked = change(RetryIn(1), Claimed(run=given_back, definition=once))
    assert asked.state is RunState.WAITING
    twice = change(RetryIn(1), Claimed(run=replace(given_back, attempt=9), definition=once))
    assert (twice.state, twice.error) == (
        RunState.FAILED,
        "it asked to be tried again more than 1 times (retry.asked_retries)",
    )


def test_a_failed_end_has_its_cause() -> None:
    """The cause is reckoned at the end that fails the run, from its output, and goes into the same change."""
    claimed = Claimed(run=a_run(token=Token(4), node_id=NODE), definition=a_definition(retry=Retry(attempts=1)))
    output = Output(run_id=RunId("run"), attempt=1, size=30, head=b"refused by db-7:5432\n")

    def cause(outcome: Outcome, claimed: Claimed) -> str | None:
        made = change_of(claimed, outcome, owner=NODE, now=seconds(5), chance=0, started=seconds(1), output=output)
        return None if made.details is None else made.details.cause

    assert cause(Failed("exit code 3", 3), claimed) == "exit 3: refused by db-#"
    assert cause(Failed("exit code 3", 3), CLAIMED) is None, "it is tried again"
    assert cause(Succeeded(0), claimed) is None
    assert cause(Cancelled("no"), claimed) is None
    unread = replace(claimed, run=replace(claimed.run, details=Details(as_stored="{")))
    assert cause(Failed("exit code 3", 3), unread) is None


def test_a_failed_end_keeps_its_line_as_it_was_written() -> None:
    """With its numbers, dates and paths, if the cause is without them: lists show it, and read no output for it."""

    def kept(error: str) -> tuple[str | None, str | None]:
        details = change(Failed(error, 3, final=True)).details
        assert details is not None
        return details.cause, details.line

    assert kept("refused by db-7:5432\x1b[0m\n") == ("exit 3: refused by db-#", "refused by db-7:5432")
    assert kept("out of paper") == ("exit 3: out of paper", None)
    assert kept("exit code 3") == ("exit 3", None)
    assert len(kept("7 " * 400 + "refused")[1] or "") == LONGEST_CAUSE


def test_when_the_first_attempt_began_is_kept() -> None:
    """From the end of the first of several attempts on: a run takes from there to its last end."""
    again = change(Failed("no")).details
    assert again == Details(begun=seconds(1))
    later = replace(CLAIMED, run=a_run(token=Token(4), node_id=NODE, attempt=2, details=Details(begun=seconds(0))))
    for outcome in (Failed("no"), Succeeded(0), Cancelled("enough"), Failed("no", final=True)):
        assert (change(outcome, later).details or later.run.details).begun == seconds(0)
    assert change(Succeeded(0)).details is None, "of a single one the run itself tells"


def test_a_run_that_waits_for_those_it_has_spawned_has_no_new_fact() -> None:
    """It does not begin again, and a node that can't read all facts of a run does not count what it has spawned."""
    found = change(Spawns(((JobId("child"), None),))).details
    assert found is not None and found.spawned is not None
    assert found == Details(spawned=found.spawned)
