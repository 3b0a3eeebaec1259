"""A node, ticked by hand, from an occurrence to a settled run."""

import re

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.examples import seconds
from tests.unit.node.world import World
from tokimori.clock import Moment
from tokimori.engine.pace import LONGEST_LINGER
from tokimori.model.decide import Due
from tokimori.model.encoding import stored_definition
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import HANDLERS_LABEL
from tokimori.model.outcome import Failed
from tokimori.model.policies import Retry
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.executor import StopReason
from tokimori.ports.planning import ALL, Share
from tokimori.ports.working import Claim, Claimed


def a_paused(job: Job) -> Job:
    """The job, paused."""
    return msgspec.structs.replace(job, state=JobState.PAUSED, version=job.version + 1)


def a_resumed(job: Job) -> Job:
    """The job, enabled again."""
    return msgspec.structs.replace(job, state=JobState.ENABLED, version=job.version + 1)


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_an_occurrence_is_run_and_settled(world: World) -> None:
    """Due, fired, claimed, started, ended and settled: at its moment, once, with what there is to know."""
    await world.add()
    member = await world.join()
    await world.pass_time(0.9)
    assert await world.runs() == []
    await world.pass_time(0.2)
    (run,) = await world.runs()
    assert (run.state, run.nominal, run.node_id, run.attempt) == (RunState.RUNNING, seconds(1), member.node.id, 1)
    assert member.executor.running == [run.id]
    member.executor.end(run.id)
    await member.settle()
    done = await world.run(run.id)
    assert (done.state, done.exit_code, done.ended, done.pid) == (RunState.SUCCEEDED, 0, seconds(1.1), 42)
    assert await world.store.attempts(run.id) == []


async def test_a_job_that_can_not_be_read_keeps_no_node_busy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A due job that the store does not give to this node is asked for with each tick, not all the time."""
    await world.add()
    member = await world.join()
    asked: list[Moment] = []

    async def nothing(now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        asked.append(now)
        return []

    monkeypatch.setattr(world.store, "due", nothing)
    await world.pass_time(6)
    assert 3 <= len(asked) <= 5
    monkeypatch.undo()
    await world.pass_time(2.1)
    assert len(member.executor.running) == 8


async def test_a_job_that_can_not_be_read_makes_nothing_else_late(world: World) -> None:
    """However long such a job stays due, the others are fired at their moments, not with the next tick."""
    await world.add("newer", schedule="* * * * * *")
    newer = world.store._tables.jobs[JobId("newer")]
    world.store._tables.jobs[newer.id] = replace(newer, definition=stored_definition('{"target":{"type":"rocket"}}'))
    await world.add("plain", schedule="*/3 * * * * *")
    await world.join()
    await world.pass_time(12.01)
    runs = await world.runs()
    assert [run.created - run.due for run in runs] == [0] * 4
    assert {run.job_id for run in runs} == {"plain"}


async def test_a_run_that_can_not_be_read_keeps_no_node_busy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that meets one gives it back for a while, without a trace, and others run meanwhile."""
    newer, plain = await world.add("newer", schedule=None), await world.add("plain", schedule=None)
    claim = world.store.claim

    async def without_newer(wanted: Claim, now: Moment) -> list[Claimed]:
        found = await claim(wanted, now)
        return [replace(each, definition=None) if each.run.job_id == newer.id else each for each in found]

    monkeypatch.setattr(world.store, "claim", without_newer)
    (run_id,) = await world.trigger(newer)
    member = await world.join()
    await world.pass_time(1)
    runs = await world.trigger(plain, 3)
    await world.pass_time(9)
    run = await world.run(run_id)
    assert (run.state, run.failures, run.lost) == (RunState.WAITING, 0, 0)
    assert 4 <= run.token <= 6
    assert await world.store.attempts(run_id) == []
    assert member.executor.running == runs


async def test_a_node_wakes_for_the_next_moment(world: World) -> None:
    """The node sleeps until shortly before the next moment, to foresee it, until that moment, or its next tick."""
    await world.add(schedule="*/5 * * * * *")
    member = await world.join()
    wakes = [0.0]
    while wakes[-1] < 4.999:
        delay = await member.settle()
        world.clock.advance(delay)
        wakes.append(wakes[-1] + delay)
    await member.settle()
    assert wakes[-1] == pytest.approx(5)
    assert wakes[-2] == pytest.approx(4.9)
    assert len(wakes) <= 6
    assert (await world.runs())[0].nominal == seconds(5)


async def test_a_failed_run_is_retried_in_time(world: World) -> None:
    """A retry waits for its delay, comes at its moment, and is the second attempt."""
    await world.add(schedule="at 2030-01-01T00:00:01Z", retry=Retry(attempts=2, delay=10))
    member = await world.join()
    await world.pass_time(1)
    (run,) = await world.runs()
    member.executor.end(run.id, Failed("exit code 3", 3))
    await world.pass_time(9.9)
    assert (await world.run(run.id)).state is RunState.WAITING
    await world.pass_time(0.2)
    assert [(task.run_id, task.attempt) for task in member.executor.tasks] == [(run.id, 2)]
    member.executor.end(run.id)
    await member.settle()
    assert [row.outcome for row in await world.store.attempts(run.id)] == ["failed", "succeeded"]


async def test_a_retry_without_delay_comes_at_once(world: World) -> None:
    """Where no delay is asked for, the next attempt starts in the very next cycles."""
    await world.add(schedule="at 2030-01-01T00:00:01Z", retry=Retry(attempts=3))
    member = await world.join()
    await world.pass_time(1)
    for _ in range(3):
        member.executor.end_all(Failed("no"))
        await world.pass_time(0.01)
    (run,) = await world.runs()
    assert (run.state, run.attempt, run.failures) == (RunState.FAILED, 3, 3)


async def test_no_more_than_the_concurrency(world: World) -> None:
    """A node never runs more than it may; what waits is started as places become free."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=3)
    await world.trigger(job, 8)
    await world.pass_time(1)
    assert len(member.executor.running) == 3
    for _ in range(8):
        assert len(member.executor.running) <= 3
        member.executor.end(member.executor.running[0])
        await world.pass_time(0.1)
    assert {run.state for run in await world.runs()} == {RunState.SUCCEEDED}


async def test_what_is_limited_runs_one_by_one(world: World) -> None:
    """Runs over the limit of their job stand in line, and the next one starts when a place is free."""
    job = await world.add(schedule=None, max_running=1)
    member = await world.join()
    ids = await world.trigger(job, 3)
    for run_id in ids:
        await world.pass_time(0.1)
        assert member.executor.running == [run_id]
        member.executor.end(run_id)
    await world.pass_time(0.1)
    assert {run.state for run in await world.runs()} == {RunState.SUCCEEDED}


async def test_a_claim_that_was_cut_short_is_asked_again_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that only sends runs to a line wakes its node: what is behind them starts without waiting for a beat."""
    member, job = await world.join(), await world.add(schedule=None)
    claim, cut = world.store.claim, [True] * 9

    async def cut_short(wanted: Claim, now: Moment) -> list[Claimed]:
        if not cut:
            return await claim(wanted, now)
        cut.pop()
        world.store.send_notice()
        return []

    monkeypatch.setattr(world.store, "claim", cut_short)
    ids = await world.trigger(job)
    await world.pass_time(0.001)
    assert member.executor.running == ids


async def test_a_node_leaves_alone_what_it_does_not_serve(world: World) -> None:
    """A job that asks for a label waits for a node that carries it."""
    job = await world.add(schedule=None, labels={"gpu": "yes"})
    plain = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(3)
    assert plain.executor.running == []
    labelled = await world.join(labels={"gpu": "yes"})
    await world.pass_time(3)
    assert labelled.executor.running == [run_id]


async def test_a_lane_with_a_handler_waits_for_a_node_that_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name or by a pattern; who has none, or another, runs all else, and the store tells who has which."""
    monkeypatch.setattr(Noop, "handler", "reports.daily")
    (run_id,) = await world.trigger(await world.add(schedule=None))
    monkeypatch.undo()
    plain, other = await world.join(), await world.join(handlers=("mails",))
    free = await world.trigger(await world.add("free", schedule=None), 2)
    await world.pass_time(3)
    assert sorted([*plain.executor.running, *other.executor.running]) == free
    routed = await world.join(handlers=("mails", re.compile(r"reports\..*")))
    await world.pass_time(3)
    assert routed.executor.running == [run_id]
    records = {record.id: record for record in await world.store.list_nodes()}
    assert records[routed.node.id].labels == {HANDLERS_LABEL: r"mails /reports\..*/"}
    assert records[plain.node.id].labels == {}


async def test_a_paused_job_does_not_start(world: World) -> None:
    """Runs of a paused job wait; once it is enabled again they go on."""
    job = await world.add(schedule=None)
    member = await world.join()
    paused = a_paused(job)
    (run_id,) = await world.trigger(job)
    await world.store.replace_job(job, paused)
    await world.pass_time(5)
    assert member.executor.running == []
    await world.store.replace_job(paused, a_resumed(paused))
    await world.pass_time(2.1)
    assert member.executor.running == [run_id]


async def test_a_cancel_arrives_with_a_tick(world: World) -> None:
    """An order to cancel reaches the running attempt within a busy tick, once, and ends the run."""
    job = await world.add(schedule=None)
    member = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(2)
    await world.store.cancel_run(run_id, "by me", world.clock.now())
    await world.pass_time(0.6)
    assert [(stop.run_id, stop.reason) for stop in member.executor.stops] == [(run_id, StopReason.CANCEL)]
    await world.pass_time(3)
    assert len(member.executor.stops) == 1
    member.executor.obey()
    await member.settle()
    run = await world.run(run_id)
    assert (run.state, run.error) == (RunState.CANCELLED, "by me")


async def test_a_cancel_finds_the_run_in_the_backlog(world: World) -> None:
    """What was claimed and has not begun when the order comes never begins."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=1)
    member.node._worker.work.pace.rate = 50.0  # as measured on a busy node: it claims ahead
    first, second = await world.trigger(job, 2)
    await world.pass_time(0.1)
    assert (await world.run(second)).state is RunState.RUNNING
    await world.store.cancel_run(second, "by me", world.clock.now())
    await world.pass_time(0.6)
    assert (await world.run(second)).state is RunState.CANCELLED
    assert member.executor.running == [first]
    assert member.executor.stops == []


async def test_what_waits_long_for_a_place_is_run_by_a_node_that_has_one(world: World) -> None:
    """A node that was fast claims ahead; where the next runs are slow it hands them back, and claims no more."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=1)
    member.node._worker.work.pace.rate = 50.0
    first, *others = await world.trigger(job, 5)
    await world.pass_time(0.1)
    assert len(await world.runs(RunState.RUNNING)) == 5
    other = await world.join()
    await world.pass_time(5)
    assert (member.executor.running, sorted(other.executor.running)) == ([first], others)
    assert {(run.failures, run.lost) for run in await world.runs()} == {(0, 0)}


async def test_what_goes_back_is_not_claimed_again_at_once(world: World) -> None:
    """It has not ended: how many went back says nothing of the node's pace."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=8)
    member.node._worker.work.pace.rate = 1000.0
    ids = await world.trigger(job, 200)
    await world.pass_time(0.1)
    assert len(await world.runs(RunState.RUNNING)) == 8 + 100
    await world.pass_time(3)
    for run_id in ids[:4]:
        member.executor.end(run_id)
        await world.pass_time(1)
        assert len(await world.runs(RunState.RUNNING)) == 8


async def test_what_ends_while_a_claim_is_under_way_tells_nothing_of_what_it_brings(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four that ended before its answer came would seem to have taken no time since."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=4)
    await world.trigger(job, 4)
    await world.pass_time(1)
    worker, source = member.node._worker, member.node._worker._source
    worker.work.pace.rate = 50.0
    await world.trigger(job)
    await member.node._lookout.look(world.clock.now(), world.clock.monotonic())
    claim = source.claim

    async def slow(asked: Claim, now: Moment) -> list[Claimed] | None:
        found = await claim(asked, now)
        member.executor.end_all()
        return found

    monkeypatch.setattr(source, "claim", slow)
    await worker.claim()
    worker.refill()
    assert (len(worker.work.running), worker.work.pace.burst()) == (1, 0)


async def test_ends_wait_for_more_where_nothing_else_is_ready(world: World) -> None:
    """As many as end meanwhile have to wait for a place, and if more can be claimed, more than that."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=1)
    worker = member.node._worker
    worker.work.pace.rate = 100.0
    await world.trigger(job, 1 + 5)
    await world.pass_time(0.1)
    assert worker.linger() == LONGEST_LINGER
    await world.trigger(job)
    await member.node._lookout.look(world.clock.now(), world.clock.monotonic())
    assert worker.linger() == 0


async def test_a_cancel_that_meets_the_end_is_not_lost(world: World) -> None:
    """An order that comes while the failed attempt is on its way to the store still ends the run: it is not retried."""
    job = await world.add(schedule=None, retry=Retry(attempts=9))
    member = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(1)
    await world.store.cancel_run(run_id, "by me", world.clock.now())
    member.executor.end(run_id, Failed("no"))
    await world.pass_time(1)
    run = await world.run(run_id)
    assert (run.state, run.error) == (RunState.CANCELLED, "by me")


async def test_a_node_that_starts_reckons_by_its_tzdata(world: World) -> None:
    """A moment that an older tzdata said is corrected without a person, and once: later cycles ask for none."""
    job = await world.add(schedule="0 0 * * * *")
    wrong = replace(job, tzdata="2020a", next_due=seconds(86_400))
    world.store._tables.jobs[job.id] = wrong
    member = await world.join()
    await world.pass_time(3)
    assert (await world.store.get_job(job.id)).next_due == seconds(3600)
    asked = member.link.calls["outdated"]
    await world.pass_time(10)
    assert member.link.calls["outdated"] == asked == 2


async def test_a_busy_node_goes_on_until_something_else_is_due(world: World) -> None:
    """A beat, a moment of a schedule and the order to stop end the flow of settling and claiming: nobody waits."""
    await world.add(schedule="* * * * * *")
    member = await world.join()
    await world.pass_time(1.1)
    node, at = member.node, world.clock.monotonic()
    beat, moment = node._membership.next_tick(at) - at, 0.9
    assert (beat < moment, node._goes_on(at)) == (True, False)
    assert node._goes_on(at + 9)
    world.clock.advance(beat)
    assert not node._goes_on(at + 9)
    node._membership.tick_at += 9
    assert node._goes_on(at + 9)
    world.clock.advance(moment - beat)
    assert not node._goes_on(at + 9)
    await world.pass_time(0)
    assert node._goes_on(at + 9)
    node.stop()
    assert not node._goes_on(at + 9)
