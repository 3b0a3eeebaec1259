"""Deleted jobs of which something still runs."""

import pytest

from tests.unit.examples import seconds
from tests.unit.service.world import NODE, ON_DEMAND, World, every_minute
from tokimori.engine.settle import change_of
from tokimori.errors import NotFound
from tokimori.model.job import JobState
from tokimori.model.outcome import Succeeded
from tokimori.ports.working import Claimed
from tokimori.service.runs import RunSummary


async def delete_while_it_runs(world: World) -> Claimed:
    """A run of a job that was every minute's, in Tokyo."""
    await world.add(every_minute(time_zone="Asia/Tokyo"), "job")
    await world.service.trigger("job")
    (claimed,) = await world.begin(1)
    world.pass_seconds(5)
    await world.service.delete("job")
    return claimed


async def test_it_is_shown_until_the_last_run_has_ended(world: World) -> None:
    """With its definition, without moments or skips; its explanation says what it is."""
    claimed = await delete_while_it_runs(world)
    job = await world.service.get("job")
    assert (job.state, job.updated, job.definition.schedule) == (JobState.DELETED, seconds(5), "* * * * *")
    assert list(await world.service.next_times("job")) == []
    assert list(await world.service.skips("job")) == []
    assert list(await world.service.graph("job")) == []
    explanation = await world.service.explain_job("job")
    assert (explanation.sentence, list(explanation.moments)) == ("Every minute.", [])
    assert explanation.warnings == ("It was deleted, and is known until the last of its runs has ended.",)
    now = world.clock.now()
    change = change_of(claimed, Succeeded(0), owner=NODE, now=now, chance=0, started=now, pid=7)
    await world.store.settle([change], NODE, now)
    with pytest.raises(NotFound):
        await world.service.get("job")


async def test_runs_say_that_their_job_is_gone(world: World) -> None:
    """In the zone of the old one, as long as it is known; also when another job has got the id."""
    run_id = (await delete_while_it_runs(world)).run.id
    details = await world.service.get_run(run_id)
    assert (details.is_job_deleted, details.time_zone) == (True, "Asia/Tokyo")
    await world.add(ON_DEMAND, "job")
    assert (await world.service.get_run(run_id)).is_job_deleted
    (summary,) = await world.service.summaries([details.run])
    assert (summary.is_job_deleted, summary.time_zone) == (True, "UTC")
    fresh = await world.service.trigger("job")
    assert not (await world.service.get_run(fresh.id)).is_job_deleted


async def test_nothing_changes_it(world: World) -> None:
    """To whoever would change it, it is gone."""
    await delete_while_it_runs(world)
    service = world.service
    acts = (service.delete, service.pause, service.resume, service.resolve, service.trigger)
    for act in (*acts, lambda job_id: service.update(job_id, owner="ada")):
        with pytest.raises(NotFound):
            await act("job")


async def test_it_is_gone_where_nothing_ran(world: World) -> None:
    """As a job of which nothing is left always was; its ended runs say so."""
    await world.add(ON_DEMAND, "job")
    run = await world.service.trigger("job")
    await world.work(Succeeded(0))
    await world.service.delete("job")
    with pytest.raises(NotFound):
        await world.service.get("job")
    assert await world.service.summaries([run]) == [RunSummary(run=run, time_zone="Europe/Paris", is_job_deleted=True)]
    assert (await world.service.get_run(run.id)).is_job_deleted
