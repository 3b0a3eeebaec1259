"""One thing that the store refuses hinders nothing else that the node has to do."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.node.world import World
from tokimori.engine.unsettled import ASIDE
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import JobState
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
    job = await world.add(schedule=None)
    member = await world.join()
    (stuck,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.link.refuses = every_end_of(stuck)
    member.executor.end_all()
    await world.pass_time(1)
    (other,) = await world.trigger(job)
    await world.pass_time(1)
    member.executor.end_all()
    await world.pass_time(1)
    assert (await world.run(other)).state is RunState.SUCCEEDED
    assert (await world.run(stuck)).state is RunState.RUNNING
    member.link.refuses = lambda _name, _asked: False
    await world.pass_time(ASIDE)
    assert (await world.run(stuck)).state is RunState.FAILED


async def test_a_node_stops_though_the_store_refuses_an_end(world: World) -> None:
    """It says so, and goes; who takes its run over settles it as lost."""
    job = await world.add(schedule=None)
    member = await world.join()
    (stuck,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.link.refuses = every_end_of(stuck)
    member.executor.end_all()
    await world.pass_time(1)
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


async def test_a_plan_that_is_refused_parks_its_job(world: World) -> None:
    """The other jobs fire at their moments; the one says what the store said."""
    names = [f"job-{n}" for n in range(9)]
    for name in names:
        await world.add(name)
    member = await world.join(concurrency=100)
    member.link.refuses = lambda name, asked: name == "apply" and any(plan.job_id == "job-4" for plan, _ in asked)
    await world.pass_time(3.5)
    parked = await world.store.get_job(JobId("job-4"))
    assert parked.state is JobState.PARKED
    assert parked.reason == "the store refused what its schedule brings: apply: not this"
    fired = [run.job_id for run in await world.runs()]
    assert {name: fired.count(JobId(name)) for name in names} == {name: 0 if name == "job-4" else 3 for name in names}
