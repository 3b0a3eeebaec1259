"""What a node has in hand, from claim to settle."""

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_definition, a_run, seconds
from tokimori.clock import HOUR, MILLISECOND, Moment
from tokimori.engine.pace import LINGER, LONGEST_LINGER, MANY
from tokimori.engine.unsettled import MOST_AT_ONCE, Key
from tokimori.engine.work import ENOUGH, LATE, MOST_CLAIMED, Work, task_of
from tokimori.model.ids import NodeId, RunId, Token
from tokimori.model.job import Definition
from tokimori.model.outcome import Failed, Released, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.run import NEVER, Details, Output, Run, Spawned, marks_in, times_since
from tokimori.model.target import Command, Http
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask, Ended, Grew, Started
from tokimori.ports.nodes import StartedRun
from tokimori.ports.working import LARGE, Claimed, Verdict

ME = NodeId("me")
PLAIN = a_definition()


def key(name: str, token: int = 1) -> Key:
    """A run and its token."""
    return RunId(name), Token(token)


def claimed(name: str, definition: Definition | None = PLAIN, **changes: object) -> Claimed:
    """A run that a claim answered."""
    return Claimed(run=a_run(**{"id": RunId(name), "token": Token(1), "node_id": ME, **changes}), definition=definition)


def ended(name: str, token: int = 1, *, at: float = 5) -> Ended:
    """The report of a success."""
    return Ended(
        run_id=RunId(name), token=Token(token), outcome=Succeeded(0), at=seconds(at), started=seconds(1), pid=42
    )


def grew(name: str, text: bytes) -> Grew:
    """The report of output."""
    output = Output(run_id=RunId(name), attempt=1, size=len(text), tail=text)
    return Grew(run_id=RunId(name), token=Token(1), output=output)


def working(*names: str, concurrency: int = 10) -> Work:
    """These runs, claimed and begun as far as there is room."""
    work = Work(concurrency)
    work.accept([claimed(name) for name in names], ME, NEW_YEAR)
    work.next_tasks()
    return work


def test_a_run_that_waits_for_others_is_never_begun_again() -> None:
    """It goes back, and is out of reach again; the claim does not count as an attempt that began."""
    work, spawned = Work(2), Details(spawned=Spawned(NEW_YEAR, 3, NEW_YEAR))
    work.accept([claimed("a", details=spawned)], ME, NEW_YEAR)
    assert not work.startable
    (change,) = work.unsettled.batch(0)
    assert (change.state, change.due, change.attempt) == (RunState.WAITING, NEVER, None)
    assert change.details == replace(spawned, unbegun=1)


def test_a_run_goes_from_claim_to_settle() -> None:
    """Claimed, begun, ended and settled: then nothing of it is left in hand."""
    work = Work(2)
    work.accept([claimed("a")], ME, NEW_YEAR)
    assert [task.run_id for task in work.next_tasks()] == ["a"]
    assert work.running == {key("a")}
    work.take(ended("a"), ME, 0.0)
    assert work.running == frozenset()
    changes = work.unsettled.batch(0)
    assert [(change.run_id, change.state, change.owner) for change in changes] == [("a", RunState.SUCCEEDED, ME)]
    assert (work.busy, bool(work.unsettled or work.startable)) == (True, True)
    assert work.settled(changes, [Verdict.APPLIED]) == []
    assert (work.busy, bool(work.unsettled or work.startable)) == (False, False)


def started(name: str, at: float) -> Started:
    """The report of a process."""
    return Started(run_id=RunId(name), token=Token(1), pid=1, at=seconds(at))


def test_what_was_asked_to_end_is_known_until_it_does() -> None:
    """By its time-out, or by an order, on a clock that nobody sets; one without either may go on for ever."""
    work = Work(10)
    timed = a_definition(timeout=5.0)
    asked_of = a_definition(target=Http(url="https://a.example"), timeout=5.0)
    work.accept([claimed("a", timed), claimed("b"), claimed("c"), claimed("d", asked_of)], ME, NEW_YEAR)
    work.next_tasks()
    for name in "abcd":
        work.take(started(name, 7200), ME, 0.0, at=1.0)
    work.expect_end(key("b"), 3.0)
    work.expect_end(key("b"), 9.0)
    work.expect_end(key("nobody"), 3.0)
    assert [(run.id, at) for run, at in work.overtime(100.0)] == [("b", 3.0), ("a", 6.0)]
    assert [run.id for run, _ in work.overtime(6.0)] == ["b"]
    work.take(ended("a"), ME, 0.0)
    work.disown(key("b"))
    assert work.overtime(100.0) == []


def test_what_was_settled_before_is_done() -> None:
    """After a lost reply the store says `already applied`; that is as good as applied. `lost` is told."""
    work = working("a", "b")
    for name in "ab":
        work.take(ended(name), ME, 0.0)
    changes = work.unsettled.batch(0)
    assert work.settled(changes, [Verdict.ALREADY_APPLIED, Verdict.LOST]) == [changes[1]]
    assert not work.busy


def test_no_more_run_than_there_are_places() -> None:
    """The concurrency is never exceeded; what ends makes room for the next in line."""
    work = Work(2)
    work.accept([claimed(name) for name in "abc"], ME, NEW_YEAR)
    assert [task.run_id for task in work.next_tasks()] == ["a", "b"]
    assert work.next_tasks() == []
    waited = work.unsettled or work.startable
    work.take(ended("a"), ME, 0.0)
    assert (waited, bool(work.unsettled or work.startable)) == (False, True)
    assert [task.run_id for task in work.next_tasks()] == ["c"]


def test_room_is_what_is_free() -> None:
    """A node that has not measured its pace claims what it has places for, less what waits in its backlog."""
    work = Work(4)
    assert work.room() == 4
    work.accept([claimed("a")], ME, NEW_YEAR)
    assert work.room() == 3
    work.next_tasks()
    assert work.room() == 3
    work.accept([claimed(name) for name in "bcdefg"], ME, NEW_YEAR)
    assert work.room() == 0


def test_a_claim_that_ends_soon_makes_the_next_one_larger() -> None:
    """Once a whole claim has ended, as much more is claimed as would end in 100 ms; of few, while one runs, nothing."""
    work = Work(4)
    work.accept([claimed(name) for name in "abcd"], ME, Moment(seconds(5) - 80 * MILLISECOND))
    work.next_tasks()
    for name in "abc":
        work.take(ended(name), ME, 0.0)
    assert work.room() == 3
    work.take(ended("d"), ME, 0.0)
    assert work.room() == 4 + 5
    changes = work.unsettled.batch(0)
    work.settled(changes, [Verdict.APPLIED] * len(changes))
    assert work.room() == 4


def test_many_that_end_soon_make_the_next_claim_larger_while_others_run() -> None:
    """They have used half of the places; with one less, or while some wait for a place, no more is claimed."""
    work = Work(2 * MANY)
    names = [str(number) for number in range(2 * MANY)]
    work.accept([claimed(name) for name in names], ME, Moment(seconds(5) - 80 * MILLISECOND))
    work.next_tasks()
    for name in names[: MANY - 1]:
        work.take(ended(name), ME, 0.0)
    assert work.room() == MANY - 1
    work.take(ended(names[MANY - 1]), ME, 0.0)
    assert work.room() == MANY + MANY * 10 // 8
    work.accept([claimed("next")], ME, seconds(5))
    assert work.room() == MANY - 1


@pytest.mark.parametrize(("places", "quick"), [(1, 1), (4, 4), (64, 32), (64, 64)])
def test_a_few_quick_runs_make_no_hoard_of_what_comes_next(places: int, quick: int) -> None:
    """However soon they have ended, beside the free places no more is claimed than twice as many as they were."""
    work = Work(places)
    names = [str(number) for number in range(places)]
    work.accept([claimed(name) for name in names], ME, seconds(5))
    work.next_tasks()
    for name in names[:quick]:
        work.take(ended(name), ME, 0.0)
    assert work.room() == 3 * quick


def late(*, begin: int, waited: float) -> tuple[int, Work]:
    """How many go back of a backlog of 10, of which so many have begun since it was seen, and whose they were."""
    work = working(*(str(number) for number in range(1 + 10)), concurrency=1)
    work.pace.rate = 1000.0
    assert work.hand_back_late(5.0, ME, NEW_YEAR) == 0
    for number in range(begin):
        work.take(ended(str(number), at=0.001), ME, 0.0)
        work.next_tasks()
    return work.hand_back_late(5.0 + waited, ME, NEW_YEAR), work


def test_what_waits_long_for_a_place_goes_back() -> None:
    """Where nothing began for a second all of it does; and no more is claimed until a place is free."""
    given_back, work = late(begin=0, waited=LATE)
    changes = work.unsettled.batch(0)
    assert (given_back, {change.state for change in changes}) == (10, {RunState.READY})
    assert sorted(change.run_id for change in changes) == sorted(map(str, range(1, 11)))
    assert work.room() == 0
    assert work.running == {key("0")}
    assert work.hand_back_late(5.0 + 2 * LATE, ME, NEW_YEAR) == 0


def test_what_ended_before_a_backlog_went_back_brings_no_new_one() -> None:
    """Where less than one begins in a second nothing stays; that one ended quickly is no reason to claim more."""
    given_back, work = late(begin=1, waited=2.5 * LATE)
    assert (given_back, work.pace.rate, work.room()) == (9, 0.4, 0)


def test_what_leaves_a_backlog_otherwise_is_not_late() -> None:
    """What was handed back, cancelled or taken away meanwhile is not taken for what waits: what has just come stays."""
    work = working(*(str(number) for number in range(1 + 3)), concurrency=1)
    work.hand_back_late(5.0, ME, NEW_YEAR)
    work.cancel_backlog(key("1"), ME, NEW_YEAR)
    work.disown(key("2"))
    work.hand_back_backlog(ME, NEW_YEAR, "other code")
    work.accept([claimed(name) for name in "vwxyz"], ME, NEW_YEAR)
    assert work.hand_back_late(5.0 + LATE, ME, NEW_YEAR) == 0


def test_what_will_have_a_place_soon_stays() -> None:
    """As much of the backlog as began in the last second; the newest ones go back."""
    given_back, work = late(begin=3, waited=LATE)
    gone = {change.run_id for change in work.unsettled.batch(0) if change.state is RunState.READY}
    assert (given_back, gone) == (4, {"7", "8", "9", "10"})
    assert work.room() == 0


@pytest.mark.parametrize(("begin", "waited"), [(0, 0.9 * LATE), (10, LATE)])
def test_a_backlog_that_has_just_come_stays(begin: int, waited: float) -> None:
    """Of one that is younger than a second, and of one that has begun since, nothing goes back."""
    assert late(begin=begin, waited=waited)[0] == 0


def test_a_backlog_beside_a_free_place_stays() -> None:
    """What a node that is about to stop has not begun, say, is not handed back as if its places were taken."""
    work = working(*(str(number) for number in range(1 + 10)), concurrency=1)
    work.hand_back_late(5.0, ME, NEW_YEAR)
    work.take(ended("0"), ME, 0.0)
    assert work.hand_back_late(5.0 + LATE, ME, NEW_YEAR) == 0


def test_of_large_runs_few_are_claimed_at_once() -> None:
    """No more than payloads of some megabytes are asked for where the last ones were large, or a claim has failed."""
    work = Work(MOST_CLAIMED)
    work.not_claimed()
    assert work.room() == MOST_CLAIMED // 2
    work.accept([claimed(name, payload="x" * LARGE) for name in "ab"], ME, NEW_YEAR)
    work.next_tasks()
    assert work.room() == 1
    work.accept([claimed("c", payload="x" * (LARGE // 4))], ME, NEW_YEAR)
    work.next_tasks()
    assert work.room() == 2


def test_one_that_ends_soon_makes_no_pace() -> None:
    """One quick run says nothing of the next ones: only as many as there are places do."""
    work = Work(4)
    work.accept([claimed("a")], ME, seconds(5))
    work.next_tasks()
    work.take(ended("a"), ME, 0.0)
    assert (work.busy, work.room()) == (True, 4)


def test_what_is_handed_back_at_once_makes_no_pace() -> None:
    """Runs that this node can't read are no reason to claim more of them."""
    work = Work(4)
    work.accept([replace(claimed(name), definition=None) for name in "abcd"], ME, NEW_YEAR)
    assert (work.busy, work.room()) == (True, 4)


def test_a_fast_node_claims_ahead() -> None:
    """A node claims about 100 ms of work ahead of its places, and never more than one transaction should hold."""
    work = Work(4)
    work.pace.note(1000, at=1.0)
    assert work.room() == 4 + 100
    work.pace.rate = 1e9
    assert work.room() == MOST_CLAIMED


def test_a_fast_node_has_two_claims_in_its_backlog() -> None:
    """It lives on the one while the next is under way; and never has more than that, however fast it is."""
    work = Work(1)
    work.pace.rate = 1e9
    for expected in (MOST_CLAIMED, MOST_CLAIMED, 0):
        assert work.room() == expected
        work.accept([claimed(f"{work.room()}-{len(work._owned)}-{n}") for n in range(expected)], ME, NEW_YEAR)


def test_a_few_runs_are_not_worth_a_transaction_beside_another() -> None:
    """As many as there are places are, of a faster node as many as it ends in 25 ms, and in any case 128."""
    work = working("a", concurrency=4)
    assert [work.worth_it(runs) for runs in (3, 4)] == [False, True]
    work.pace.rate = 8 / LINGER
    assert [work.worth_it(runs) for runs in (7, 8)] == [False, True]
    work.pace.rate = 1e9
    assert [work.worth_it(runs) for runs in (ENOUGH - 1, ENOUGH)] == [False, True]
    many = working("a", concurrency=2 * MOST_CLAIMED)
    assert many.worth_it(many.room())
    many.not_claimed()
    assert many.worth_it(many.room())
    work.take(ended("a"), ME, 0)
    assert not work.worth_it(MOST_CLAIMED)


def _more() -> bool:
    return True


def _no_more() -> bool:
    return False


def test_ends_wait_for_more_only_where_no_place_gets_free_meanwhile() -> None:
    """A slow node, one with a free place, and one with little in its backlog settle at once."""
    work = working(*(str(n) for n in range(2 + 2 + 5)), concurrency=2)
    work.pace.rate = 5 / LONGEST_LINGER
    assert work.linger(_more) == LONGEST_LINGER
    work.pace.rate = 6 / LONGEST_LINGER
    assert work.linger(_more) == 0
    work.pace.rate = 1.9 / LINGER
    assert work.linger(_more) == 0
    work.pace.rate = 2 / LINGER
    assert work.linger(_more) == LONGEST_LINGER
    work.take(ended("0"), ME, 0)
    assert work.linger(_more) == 0
    work.next_tasks()
    assert work.linger(_more) == LONGEST_LINGER
    work.hand_back_backlog(ME, NEW_YEAR, "it stops")
    assert work.linger(_more) == 0


@pytest.mark.parametrize(("backlog", "lingers"), [(11, False), (12, True)])
def test_a_node_with_many_places_needs_no_second_run_for_each_of_them(backlog: int, lingers: bool) -> None:
    """Three times as many as usually end meanwhile are enough: functions of 10 ms settled one by one."""
    work = working(*(str(n) for n in range(20 + backlog)), concurrency=20)
    work.pace.rate = 4 / LONGEST_LINGER
    assert (work.linger(_more) == LONGEST_LINGER) is lingers


def test_where_no_claim_comes_between_less_has_to_wait_behind_the_ends_that_linger() -> None:
    """Ends linger while as many runs wait for a place as usually end meanwhile."""
    work = working(*"abcdef", concurrency=2)
    work.pace.rate = 1.9 / LINGER
    assert work.linger(_no_more) == 0
    work.pace.rate = 2 / LINGER
    assert (work.linger(_more), work.linger(_no_more)) == (0, LONGEST_LINGER)
    work.take(ended("a"), ME, 0)
    assert work.linger(_no_more) == 0
    work.next_tasks()
    assert work.linger(_no_more) == 0


def test_a_claim_answered_twice_is_taken_once() -> None:
    """The reply to a claim that was asked again does not make a run start twice."""
    work = working("a")
    work.accept([claimed("a"), claimed("b")], ME, NEW_YEAR)
    assert [task.run_id for task in work.next_tasks()] == ["b"]


def test_a_run_without_a_job_is_handed_back() -> None:
    """A run whose job is gone is not started; the store learns of it with the next settle."""
    work = Work(2)
    work.accept([claimed("a", definition=None)], ME, NEW_YEAR)
    assert work.next_tasks() == []
    assert [(change.run_id, change.attempt) for change in work.unsettled.batch(0)] == [("a", None)]


def test_a_report_about_another_claim_changes_nothing() -> None:
    """What is told of an attempt that this node does not have, or has under another token, is dropped."""
    work = working("a")
    work.take(ended("a", token=7), ME, 0.0)
    work.take(ended("b"), ME, 0.0)
    assert work.running == {key("a")}
    assert work.unsettled.batch(0) == []


def test_an_end_is_told_once() -> None:
    """A second report of the same end changes nothing."""
    work = working("a")
    work.take(ended("a"), ME, 0.0)
    first = work.unsettled.batch(0)
    work.take(replace(ended("a"), outcome=Failed("no")), ME, 0.0)
    assert work.unsettled.batch(0) == first


def test_a_change_is_kept_until_a_verdict() -> None:
    """While the store does not answer, changes stay, and are given again."""
    work = working("a")
    work.take(ended("a"), ME, 0.0)
    assert work.unsettled.batch(0) == work.unsettled.batch(0)
    assert work.unsettled or work.startable


def test_a_settle_has_a_limit() -> None:
    """One settle holds no more than one transaction should; the oldest ends come first."""
    names = [f"{n:05}" for n in range(MOST_AT_ONCE + 5)]
    work = working(*names, concurrency=2 * MOST_AT_ONCE)
    for name in names:
        work.take(ended(name), ME, 0.0)
    first = work.unsettled.batch(0)
    assert [change.run_id for change in first] == names[:MOST_AT_ONCE]
    work.settled(first, [Verdict.APPLIED] * len(first))
    assert [change.run_id for change in work.unsettled.batch(0)] == names[MOST_AT_ONCE:]


def test_started_processes_are_told_until_the_store_knows() -> None:
    """A process that began goes with every beat until one is answered; one that has ended goes no more."""
    work = working("a", "b")
    for name in "ab":
        work.take(Started(run_id=RunId(name), token=Token(1), pid=42, at=seconds(1)), ME, 0.0)
    note_reported = work.started()
    assert note_reported == work.started()
    assert note_reported[0] == StartedRun(run_id=RunId("a"), token=Token(1), pid=42, at=seconds(1))
    work.take(ended("b"), ME, 0.0)
    assert [run.run_id for run in work.started()] == ["a"]
    work.note_reported(note_reported)
    assert work.started() == ()


def test_the_newest_output_is_kept_once() -> None:
    """Of what an attempt wrote only the newest is saved, once, and nothing once it has ended."""
    work = working("a", "b")
    for report in (grew("a", b"1"), grew("a", b"12"), grew("b", b"x")):
        work.take(report, ME, 0.0)
    work.take(ended("b"), ME, 0.0)
    assert [(output.run_id, output.tail) for output in work.take_outputs()] == [("a", b"12")]
    assert work.take_outputs() == []


def test_times_are_the_stores() -> None:
    """Executors go by this machine's clock; what is written, and when a retry is due, is corrected to the store's."""
    work = Work(1)
    work.accept([claimed("a", a_definition(retry=Retry(attempts=2, delay=10)))], ME, NEW_YEAR)
    work.next_tasks()
    work.take(Started(run_id=RunId("a"), token=Token(1), pid=42, at=seconds(1)), ME, 0.0, -HOUR)
    assert work.started()[0].at == seconds(1 - 3600)
    work.take(replace(ended("a"), outcome=Failed("no")), ME, 0.0, -HOUR)
    change = work.unsettled.batch(0)[0]
    assert (change.started, change.ended, change.due) == (seconds(1 - 3600), seconds(5 - 3600), seconds(15 - 3600))


def test_the_backlog_is_handed_back_unpenalised() -> None:
    """What has not begun is released: ready again, no attempt row, no budget used; what runs goes on."""
    work = working("a", "b", concurrency=1)
    work.hand_back_backlog(ME, seconds(3), "the node stops")
    changes = work.unsettled.batch(0)
    assert [(c.run_id, c.state, c.attempt, c.failures, c.lost) for c in changes] == [("b", RunState.READY, None, 0, 0)]
    assert work.running == {key("a")}
    assert work.next_tasks() == []


def test_the_store_is_compared_with_what_is_known() -> None:
    """Runs that the store gives this node and it does not know, and those that it works on and no longer owns."""
    work = working("a", "b")
    unknown, lost = work.compare(frozenset({key("a"), key("c"), key("b", 2)}))
    assert (set(unknown), lost) == ({key("c"), key("b", 2)}, [key("b")])
    assert work.compare(frozenset({key("a"), key("b")})) == ([], [])


def test_a_disowned_run_is_forgotten() -> None:
    """A run that is somebody else's now leaves no trace, whether it waits, runs or has ended, but that it began."""
    work = working("waits", "runs", "ended", concurrency=10)
    work.accept([claimed("late")], ME, NEW_YEAR)
    work.take(Started(run_id=RunId("runs"), token=Token(1), pid=42, at=seconds(1)), ME, 0.0)
    work.take(grew("runs", b"x"), ME, 0.0)
    work.take(ended("ended"), ME, 0.0)
    for name in ("waits", "runs", "ended", "late", "unknown"):
        work.disown(key(name))
    assert (work.busy, bool(work.unsettled or work.startable), work.running, work.started()) == (
        False,
        False,
        frozenset(),
        (),
    )
    assert (work.unsettled.batch(0), work.next_tasks(), work.take_outputs()) == ([], [], [])
    work.take(ended("runs"), ME, 0.0)
    assert work.unsettled.batch(0) == []
    assert set(work.begun_before) == {key("waits"), key("runs"), key("ended")}


def test_an_order_to_cancel_is_carried_out_once() -> None:
    """The same order comes with every tick; only the first time something is to be done."""
    work = working("a")
    assert work.note_cancel(key("a"), "by me")
    assert not work.note_cancel(key("a"), "by me")
    assert not work.note_cancel(key("unknown"), "by me")


def test_a_cancelled_run_is_not_retried() -> None:
    """However the attempt ends that was ordered to, except by success, the run is cancelled."""
    work = Work(1)
    work.accept([claimed("a", a_definition(retry=Retry(attempts=9)))], ME, NEW_YEAR)
    work.next_tasks()
    work.note_cancel(key("a"), "by me")
    work.take(replace(ended("a"), outcome=Failed("signal 15", signal=15)), ME, 0.0)
    assert [(change.state, change.error) for change in work.unsettled.batch(0)] == [(RunState.CANCELLED, "by me")]


def test_an_order_that_comes_too_late_changes_nothing_here() -> None:
    """A run that has ended and waits for its settle is left to the store, which knows of the order."""
    work = working("a")
    work.take(ended("a"), ME, 0.0)
    assert not work.note_cancel(key("a"), "by me")


def test_a_run_is_cancelled_in_the_backlog() -> None:
    """What has not begun when the order comes never begins."""
    work = working("a", "b", concurrency=1)
    assert work.note_cancel(key("b"), "by me")
    assert work.cancel_backlog(key("b"), ME, seconds(3))
    assert not work.cancel_backlog(key("a"), ME, seconds(3))
    assert [(change.run_id, change.state, change.error) for change in work.unsettled.batch(0)] == [
        ("b", RunState.CANCELLED, "by me")
    ]
    work.take(ended("a"), ME, 0.0)
    assert work.next_tasks() == []


def test_a_task_says_all_that_an_executor_needs() -> None:
    """The task is the run, with the definition of its claim."""
    run: Run = a_run(id=RunId("a"), token=Token(3), attempt=2, due=seconds(7), payload="{}")
    command = Command(argv=("true",))
    definition = a_definition(target=command, timeout=5.0, timeout_grace=2.0, max_running=1, time_zone="Europe/Paris")
    assert task_of(Claimed(run=run, definition=definition)) == AttemptTask(
        run_id=RunId("a"),
        token=Token(3),
        attempt=2,
        job_id=run.job_id,
        target=command,
        nominal=NEW_YEAR,
        due=seconds(7),
        timeout=5.0,
        timeout_grace=2.0,
        kill_on_lost_lease=True,
        time_zone="Europe/Paris",
        payload="{}",
    )
    assert task_of(Claimed(run=run, definition=None)) is None


def test_a_release_of_a_started_run_keeps_its_row() -> None:
    """A process that was stopped because its node stops is a try that is kept, and costs nothing."""
    work = working("a")
    work.take(replace(ended("a"), outcome=Released("its node stopped it", signal=15)), ME, 0.0)
    change = work.unsettled.batch(0)[0]
    assert (change.state, change.failures, change.lost) == (RunState.READY, 0, 0)
    assert change.attempt is not None
    assert change.attempt.outcome == "released"


def test_times_of_output_are_moved_with_those_of_the_attempt() -> None:
    """By how much this machine's clock is behind the store's: lines stand between start and end of their attempt."""
    work = working("a", "b")
    output = Output(run_id=RunId("a"), attempt=1, size=1, tail=b"x", times=times_since(seconds(2), bytes([0, 0])))
    work.take(Grew(run_id=RunId("a"), token=Token(1), output=output), ME, 0.0, HOUR)
    work.take(replace(ended("b"), output=output), ME, 0.0, HOUR)
    (settled,) = [change.output for change in work.unsettled.batch(0)]
    for moved in (*work.take_outputs(), settled):
        assert moved is not None
        assert list(marks_in(moved.times)) == [(0, seconds(2) + HOUR)]
