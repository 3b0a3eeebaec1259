"""A job whose definition this version can't read."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.unit.examples import seconds
from tests.unit.service.world import ON_DEMAND, World
from tokimori.errors import Refused
from tokimori.model.encoding import stored_definition
from tokimori.model.target import Unreadable
from tokimori.service.doors.reboot import trigger_reboot
from tokimori.service.service import Service
from tokimori.service.views.jobs import Job

ROCKET = '{"target":{"type":"rocket"},"schedule":"* * * * *"}'


async def a_newer_job(world: World, **changes: object) -> None:
    """A job `newer` as a newer version left it, next to one that can be read."""
    await world.add({"noop": True, "schedule": "* * * * *"}, "plain")
    job = replace(await world.add(ON_DEMAND, "newer"), definition=stored_definition(ROCKET), **changes)
    world.store.tables.jobs[job.id] = job


async def test_it_is_shown_with_the_reason(world: World) -> None:
    """Alone and in the list, with the moments of the other jobs."""
    await a_newer_job(world)
    assert [job.id for job in await world.service.jobs.list()] == ["newer", "plain"]
    view = Job.made(await world.service.jobs.get("newer"))
    assert view.unreadable is not None
    assert "rocket" in view.unreadable
    assert await world.service.jobs.next("newer") == []
    assert [job.id for job, _ in await world.service.schedules.upcoming(2)] == ["plain", "plain"]
    assert await trigger_reboot(world.store, world.service, "host", "boot", lambda _lane: True) == []


@pytest.mark.parametrize(
    "act",
    [
        lambda service: service.jobs.update("newer", name="x"),
        lambda service: service.jobs.update("newer", command="x", schedule=None),
        lambda service: service.jobs.trigger("newer"),
    ],
)
async def test_nothing_is_done_that_would_lose_it(world: World, act: Callable[[Service], Awaitable[object]]) -> None:
    """It can neither be edited nor run; the error says why, and what can be done."""
    await a_newer_job(world)
    with pytest.raises(Refused, match="rocket") as caught:
        await act(world.service)
    assert caught.value.allowed


async def test_it_is_left_alone_paused_and_deleted_but_not_resumed(world: World) -> None:
    """It is not fired; who resumes it needs a version that can read it; its text stays to the end."""
    await a_newer_job(world, next_due=seconds(60))
    world.pass_seconds(60)
    await world.fire()
    assert [run.job_id for run in await world.service.runs.list()] == ["plain"]
    paused = await world.service.jobs.pause("newer", "later")
    assert isinstance(paused.definition.target, Unreadable)
    assert paused.definition.target.text == ROCKET
    with pytest.raises(Refused, match="rocket"):
        await world.service.jobs.resume("newer")
    await world.service.jobs.delete("newer")


async def test_a_zone_that_is_not_known_here_hinders_no_start(world: World) -> None:
    """A machine with newer rules has added such a job: what is to run when this one starts does so all the same."""
    job = await world.add(ON_DEMAND, "elsewhere")
    world.store.tables.jobs[job.id] = replace(job, definition=replace(job.definition, time_zone="America/Newtown"))
    await world.service.jobs.add("start", noop=True, schedule="@reboot")
    runs = await trigger_reboot(world.store, world.service, "host", "boot", lambda _lane: True)
    assert [run.job_id for run in runs] == ["start"]


async def test_a_zone_that_is_not_known_here_keeps_no_other_job_from_new_days_off(world: World) -> None:
    """All that can be edited here follow their calendar, also those behind it, and it is said which does not."""
    await world.service.calendars.add("holidays", dates=["12-25"])
    for job_id in ("a", "elsewhere", "z"):
        await world.service.jobs.add(job_id, noop=True, schedule="@daily", calendars=["holidays"])
    job = await world.service.jobs.get("elsewhere")
    world.store.tables.jobs[job.id] = replace(job, definition=replace(job.definition, time_zone="America/Newtown"))
    for _ in range(2):
        with pytest.raises(Refused, match=r"'holidays' was changed, and these jobs keep its old days: elsewhere .*New"):
            await world.service.calendars.update("holidays", dates=["12-26"])
        days = {job.id: job.days_off for job in await world.service.jobs.list()}
        assert days == dict.fromkeys(("a", "z"), '{"dates":["12-26"]}') | {"elsewhere": job.days_off}
