"""Deleted jobs of which something still runs."""

import pytest

from tests.unit.examples import seconds
from tests.unit.service.world import NODE, ON_DEMAND, World, every_minute
from tokimori.engine.settle import change_of
from tokimori.errors import NotFound
from tokimori.model.job import JobState
from tokimori.model.outcome import Succeeded
from tokimori.ports.working import Claimed
from tokimori.service.runs.runs import RunSummary


async def delete_while_it_runs(world: World) -> Claimed:
    """A run of a job that was every minute's, in Tokyo."""
    await world.add(every_minute(time_zone="Asia/Tokyo"), "job")
    await world.service.jobs.trigger("job")
    (claimed,) = await world.begin(1)
    world.pass_seconds(5)
    await world.service.jobs.delete("job")
    return claimed


async def test_it_is_shown_until_the_last_run_has_ended(world: World) -> None:
    """With its definition, without moments or skips; its explanation says what it is."""
    claimed = await delete_while_it_runs(world)
    job = await world.service.jobs.get("job")
    assert (job.state, job.updated, job.definition.schedule) == (JobState.DELETED, seconds(5), "* * * * *")
    assert list(await world.service.jobs.next("job")) == []
    assert list(await world.service.jobs.skips("job")) == []
    assert list(await world.service.jobs.graph("job")) == []
    explanation = await world.service.jobs.explain("job")
    assert (explanation.sentence, list(explanation.moments)) == ("Every minute.", [])
    assert explanation.warnings == ("It was deleted, and is known until the last of its runs has ended.",)
    now = world.clock.now()
    change = change_of(claimed, Succeeded(0), owner=NODE, now=now, chance=0, started=now, pid=7)
    await world.store.settle([change], NODE, now)
    with pytest.raises(NotFound):
        await world.service.jobs.get("job")


async def test_runs_say_that_their_job_is_gone(world: World) -> None:
    """In the zone of the old one, as long as it is known; also when another job has got the id."""
    run_id = (await delete_while_it_runs(world)).run.id
    details = await world.service.runs.get(run_id)
    assert (details.is_job_deleted, details.time_zone) == (True, "Asia/Tokyo")
    await world.add(ON_DEMAND, "job")
    assert (await world.service.runs.get(run_id)).is_job_deleted
    (summary,) = await world.service.runs.summaries([details.run])
    assert (summary.is_job_deleted, summary.time_zone) == (True, "UTC")
    fresh = await world.service.jobs.trigger("job")
    assert not (await world.service.runs.get(fresh.id)).is_job_deleted


async def test_nothing_changes_it(world: World) -> None:
    """To whoever would change it, it is gone."""
    await delete_while_it_runs(world)
    service = world.service
    acts = (service.jobs.delete, service.jobs.pause, service.jobs.resume, service.jobs.resolve, service.jobs.trigger)
    for act in (*acts, lambda job_id: service.jobs.update(job_id, owner="ada")):
        with pytest.raises(NotFound):
            await act("job")


async def test_it_is_gone_where_nothing_ran(world: World) -> None:
    """As a job of which nothing is left always was; its ended runs say so."""
    await world.add(ON_DEMAND, "job")
    run = await world.service.jobs.trigger("job")
    await world.work(Succeeded(0))
    await world.service.jobs.delete("job")
    with pytest.raises(NotFound):
        await world.service.jobs.get("job")
    assert await world.service.runs.summaries([run]) == [
        RunSummary(run=run, time_zone="Europe/Paris", is_job_deleted=True)
    ]
    assert (await world.service.runs.get(run.id)).is_job_deleted
