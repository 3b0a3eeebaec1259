"""One thing that the store refuses hinders nothing else that the node has to do."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.node.world import Member, World
from tokimori.engine.refusals import LONGEST_PAUSE
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import RetryIn
from tokimori.model.transitions import RunState
from tokimori.node.stopping import FAREWELL
from tokimori.ports.working import Change


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


def success_of(run_id: RunId) -> Any:
    """The store refuses batches with a success of this run."""

    def refuses(name: str, asked: Sequence[Change]) -> bool:
        return name == "settle" and any((one.run_id, one.state) == (run_id, RunState.SUCCEEDED) for one in asked)

    return refuses


def every_end_of(run_id: RunId) -> Any:
    """The store refuses batches with this run."""
    return lambda name, asked: name == "settle" and any(change.run_id == run_id for change in asked)


async def with_a_refused_end(world: World) -> tuple[Member, Job, RunId]:
    """A node whose only run has ended, and the store takes that in no form."""
    job = await world.add(schedule=None)
    member = await world.join()
    (stuck,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.link.refuses = every_end_of(stuck)
    member.executor.end_all()
    await world.pass_time(1)
    return member, job, stuck


async def test_others_are_settled(world: World) -> None:
    """Of eight runs that end together one is refused: it fails, the others succeed, and nothing runs twice."""
    job = await world.add(schedule=None)
    member = await world.join()
    runs = await world.trigger(job, 8)
    await world.pass_time(0.1)
    member.link.refuses = success_of(runs[5])
    member.executor.end_all()
    await world.pass_time(30)
    states = {run.id: (run.state, run.attempt) for run in await world.runs()}
    assert states == {run: (RunState.FAILED if run == runs[5] else RunState.SUCCEEDED, 1) for run in runs}
    error = (await world.run(runs[5])).error
    assert error == "the store refused how this attempt ended (succeeded): settle: not this"


async def test_what_is_refused_in_every_form_is_tried_again(world: World) -> None:
    """The node goes on with other runs, and settles that one when the store takes it."""
    member, job, stuck = await with_a_refused_end(world)
    (other,) = await world.trigger(job)
    await world.pass_time(1)
    member.executor.end_all()
    await world.pass_time(1)
    assert (await world.run(other)).state is RunState.SUCCEEDED
    assert (await world.run(stuck)).state is RunState.RUNNING
    member.link.refuses = lambda _name, _asked: False
    await world.pass_time(LONGEST_PAUSE)
    assert (await world.run(stuck)).state is RunState.SUCCEEDED


async def test_a_node_stops_though_the_store_refuses_an_end(world: World) -> None:
    """It says so, and goes; who takes its run over settles it as lost."""
    member, _, stuck = await with_a_refused_end(world)
    member.node.stop()
    await world.pass_time(FAREWELL + 1)
    assert member.node.finished
    await world.join()
    await world.pass_time(30)
    run = await world.run(stuck)
    assert (run.attempt, run.lost) == (2, 1)


async def test_a_lost_run_that_is_refused_hinders_no_other(world: World) -> None:
    """Who takes over the runs of a dead node settles all of them but one, and that one as failed."""
    job = await world.add(schedule=None)
    dead = await world.join()
    runs = await world.trigger(job, 8)
    await world.pass_time(0.1)
    dead.frozen = True
    heir = await world.join(concurrency=1)
    heir.link.refuses = lambda name, asked: (
        name == "settle" and any(change.run_id == runs[2] and change.state is not RunState.FAILED for change in asked)
    )
    await world.pass_time(60)
    ended = {run.id: (run.state, run.lost) for run in await world.runs()}
    assert ended.pop(runs[2]) == (RunState.FAILED, 1)
    assert {lost for _, lost in ended.values()} == {1}


def touches(world: World, run_id: RunId) -> Any:
    """The store refuses to give this run out, and to make it ready."""

    def refuses(name: str, asked: Any) -> bool:
        live = [row.run for row in world.store._tables.live.values()]
        if name == "claim":
            ready = [run for run in live if run.state is RunState.READY and run.lane in asked.lanes]
            in_line = sorted(ready, key=lambda run: (run.rank, run.id))[asked.skip :]
            return run_id in [run.id for run in in_line[: asked.limit]]
        if name == "promote":
            now, limit, skip = asked
            due = sorted((run.due, run.id) for run in live if run.state is RunState.WAITING and run.due <= now)
            return run_id in [run for _, run in due[skip:][:limit]]
        return False

    return refuses


async def test_a_run_that_can_not_be_claimed_hinders_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """All runs before it, behind it and of other queues are carried out; it is, as soon as the store gives it out."""
    jobs = [await world.add(name, schedule=None, queue=queue) for name, queue in (("a", "one"), ("b", "two"))]
    runs = await world.trigger(jobs[0], 9)
    member = await world.join(concurrency=4)
    member.link.refuses = touches(world, runs[4])
    others = await world.trigger(jobs[1], 3)
    for _ in range(8):
        await world.pass_time(0.5)
        member.executor.end_all()
    await world.pass_time(0.5)
    states = {run: (await world.run(run)).state for run in (*runs, *others)}
    assert states.pop(runs[4]) is RunState.READY
    assert set(states.values()) == {RunState.SUCCEEDED}
    assert "refuses to give out a ready run (see `tokimori run list --state ready`): number 1 of " in caplog.text
    member.link.refuses = lambda _name, _asked: False
    await world.pass_time(LONGEST_PAUSE)
    assert (await world.run(runs[4])).state is RunState.RUNNING


async def test_a_run_that_can_not_be_made_ready_hinders_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Retries that were due before it and after it start at their moments, jobs fire, and nobody backs off."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=100)
    runs = await world.trigger(job, 9)
    await world.pass_time(0.1)
    member.executor.end_all(RetryIn(5.0))
    await world.pass_time(1)
    member.link.refuses = touches(world, runs[4])
    await world.add("other")
    await world.pass_time(10)
    states = {run: (await world.run(run)).state for run in runs}
    assert states.pop(runs[4]) is RunState.WAITING
    assert set(states.values()) == {RunState.RUNNING}
    assert [run.job_id for run in await world.runs()].count(JobId("other")) == 10
    assert "refuses to make a waiting run ready (see `tokimori run list --state waiting`): number 1 " in caplog.text
    member.link.refuses = lambda _name, _asked: False
    await world.pass_time(LONGEST_PAUSE)
    assert (await world.run(runs[4])).state is RunState.RUNNING


async def test_a_process_that_the_store_does_not_note_costs_no_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The node beats without it, goes on, and its runs succeed once."""
    job = await world.add(schedule=None)
    member = await world.join()
    runs = await world.trigger(job, 2)
    member.link.refuses = lambda name, asked: name == "tick" and any(each.run_id == runs[0] for each in asked.started)
    await world.pass_time(20)
    assert member.node.healthy
    assert "the store refused to note which of 2 processes began: tick: not this" in caplog.text
    member.executor.end_all()
    await world.pass_time(1)
    assert {(run.state, run.attempt, run.pid) for run in await world.runs()} == {(RunState.SUCCEEDED, 1, 42)}


async def test_an_output_that_is_refused_hinders_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """What the others have written so far can be read; nobody backs off."""
    job = await world.add(schedule=None)
    member = await world.join()
    runs = await world.trigger(job, 5)
    await world.pass_time(0.1)
    member.link.refuses = lambda name, asked: (
        name == "save_outputs" and any(output.run_id == runs[2] for output in asked)
    )
    for run in runs:
        member.executor.write(run)
    await world.pass_time(1)
    known = [run for run in runs if await world.store.output(run, 1) is not None]
    assert known == [run for run in runs if run != runs[2]]
    assert f"the store refused what run {runs[2]} has written so far" in caplog.text


async def test_a_plan_that_is_refused_parks_its_job(world: World) -> None:
    """The other jobs fire at their moments; the one says what the store said."""
    names = [f"job-{n}" for n in range(9)]
    for name in names:
        await world.add(name)
    member = await world.join(concurrency=100)
    member.link.refuses = lambda name, asked: name == "apply" and any(plan.job_id == "job-4" for plan, _ in asked)
    await world.pass_time(20.5)
    parked = await world.store.get_job(JobId("job-4"))
    assert parked.state is JobState.PARKED
    assert parked.reason == "the store refused what its schedule brings: apply: not this"
    fired = [run.job_id for run in await world.runs()]
    assert {name: fired.count(JobId(name)) for name in names} == {name: 0 if name == "job-4" else 20 for name in names}


async def test_what_still_runs_has_its_grace_beside_a_refused_end(world: World) -> None:
    """A node that drains ends nothing because the store refuses the end of another run."""
    job = await world.add(schedule=None)
    member = await world.join(stop_grace=600.0)
    stuck, running = await world.trigger(job, 2)
    await world.pass_time(0.1)
    member.link.refuses = every_end_of(stuck)
    member.executor.end(stuck)
    await world.pass_time(1)
    member.node.stop()
    await world.pass_time(60)
    assert (member.executor.running, member.executor.stops, member.node.finished) == ([running], [], False)
    member.executor.end(running)
    await world.pass_time(FAREWELL + 1)
    assert member.node.finished
    assert (await world.run(running)).state is RunState.SUCCEEDED


async def test_a_job_that_can_not_even_be_parked_waits(world: World) -> None:
    """The other jobs fire at their moments, though the store refuses whatever concerns the one."""
    names = [f"job-{n}" for n in range(5)]
    for name in names:
        await world.add(name)
    member = await world.join(concurrency=1000)

    def refuses(name: str, asked: Any) -> bool:
        plans = name == "apply" and any(plan.job_id == "job-0" for plan, _ in asked)
        return plans or (name == "replace_job" and asked.id == "job-0")

    member.link.refuses = refuses
    await world.pass_time(30.5)
    fired = [run.job_id for run in await world.runs()]
    assert {name: fired.count(JobId(name)) for name in names} == {name: 0 if name == "job-0" else 30 for name in names}
    member.link.refuses = lambda _name, _asked: False
    await world.pass_time(60)
    assert (await world.store.get_job(JobId("job-0"))).fired_through > 0
    assert JobId("job-0") in [run.job_id for run in await world.runs()]


async def test_a_store_that_refused_everything_for_a_moment_fails_and_parks_nothing(world: World) -> None:
    """What ended or fell due while it was ill is settled and fired when it is well."""
    await world.add("scheduled")
    job = await world.add("asked-for", schedule=None)
    member = await world.join(concurrency=1000)
    runs = await world.trigger(job, 5)
    await world.pass_time(0.1)
    member.link.refuses = lambda name, _asked: name in ("settle", "apply", "replace_job")
    member.executor.end_all()
    await world.pass_time(4)
    member.link.refuses = lambda _name, _asked: False
    await world.pass_time(60)
    assert {(await world.run(run)).state for run in runs} == {RunState.SUCCEEDED}
    assert (await world.store.get_job(JobId("scheduled"))).state is JobState.ENABLED
