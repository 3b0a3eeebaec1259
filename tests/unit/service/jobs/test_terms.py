"""When a job may run, and how often: what the doors ask of a job's terms."""

from collections.abc import Sequence

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import World
from tokimori.clock import HOUR, MINUTE, Moment, format_moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.run import Run
from tokimori.model.target import Noop
from tokimori.ports.store import RunFilter
from tokimori.schedules.zones import tzdata_version
from tokimori.service.definitions.definitions import job_fields_of

MINUTELY: dict[str, object] = {"noop": True, "schedule": "* * * * *", "max_running": 0}


async def fire_at(world: World, n: float) -> Job:
    """Decide the job `j` so many seconds after the new year; the job after that."""
    world.clock.moment = seconds(n)
    await world.fire()
    return await world.service.jobs.get("j")


async def runs_of(world: World) -> Sequence[Run]:
    """All runs by nominal time."""
    return sorted(await world.store.list_runs(RunFilter(limit=1000)), key=lambda run: run.nominal)


# How many


async def test_the_rest_of_the_runs_is_the_jobs(world: World) -> None:
    """Counted down by firing, left alone by an edit that does not name it, set by one that does, unset by a null."""
    job = await world.add({**MINUTELY, "runs_remaining": 5}, "j")
    assert job.runs_remaining == 5
    assert (await fire_at(world, 120)).runs_remaining == 3
    assert (await world.update("j", {"name": "other"})).runs_remaining == 3
    assert (await world.update("j", {"schedule": "*/2 * * * *"})).runs_remaining == 3
    assert (await world.update("j", {"runs_remaining": 9})).runs_remaining == 9
    assert (await world.update("j", {"runs_remaining": None})).runs_remaining is None


async def test_what_an_edit_finds_due_is_counted_first(world: World) -> None:
    """Occurrences up to the edit are decided by the old definition, and take their part of the rest."""
    await world.add({**MINUTELY, "runs_remaining": 5}, "j")
    world.clock.moment = seconds(60)
    assert (await world.update("j", {"name": "other"})).runs_remaining == 4


async def test_a_job_whose_runs_are_made_can_be_given_more(world: World) -> None:
    """It is finished, stays so through other edits, and goes on when it is given more."""
    await world.add({**MINUTELY, "runs_remaining": 1}, "j")
    done = await fire_at(world, 60)
    assert (done.state, done.runs_remaining, done.next_due) == (JobState.FINISHED, 0, None)
    assert await world.service.jobs.next("j") == []
    assert (await world.update("j", {"name": "x"})).state is JobState.FINISHED
    more = await world.update("j", {"runs_remaining": 2})
    assert (more.state, more.next_due) == (JobState.ENABLED, seconds(120))
    assert await world.service.jobs.next("j", 10) == [seconds(120), seconds(180)]


async def test_a_pause_keeps_the_rest(world: World) -> None:
    """Paused and resumed a job has as many runs left as before, though it missed some moments."""
    await world.add({**MINUTELY, "runs_remaining": 5}, "j")
    await fire_at(world, 60)
    await world.service.jobs.pause("j")
    world.clock.moment = seconds(600)
    assert (await world.service.jobs.resume("j")).runs_remaining == 4


@pytest.mark.parametrize("number", [0, -1, 1.5, "3", 10**9 + 1])
async def test_a_rest_that_is_none_is_refused(world: World, number: object) -> None:
    """At least one run, a whole number; adding as well as editing."""
    with pytest.raises(InvalidInput) as caught:
        await world.add({**MINUTELY, "runs_remaining": number}, "j")
    assert (caught.value.field, caught.value.value) == ("runs_remaining", number)
    await world.add(MINUTELY, "j")
    with pytest.raises(InvalidInput, match="runs_remaining"):
        await world.update("j", {"runs_remaining": number})


async def test_a_job_on_demand_has_no_runs_to_count(world: World) -> None:
    """What nobody would count down is not kept."""
    with pytest.raises(InvalidInput, match="on demand"):
        await world.add({"noop": True, "runs_remaining": 3}, "j")


async def test_the_fields_of_a_job_tell_its_rest(world: World) -> None:
    """So that a job that is exported and added elsewhere goes on where it stood."""
    await world.add({**MINUTELY, "runs_remaining": 3, "delay": 5}, "j")
    fields = job_fields_of(await fire_at(world, 65))
    assert (fields["runs_remaining"], fields["delay"]) == (2, 5)
    again = await world.add(fields, "again")
    assert job_fields_of(again) == fields


# Bounds


async def test_nothing_exists_outside_the_bounds(world: World) -> None:
    """The first moment is not before starts_at, and after the last one up to ends_at the job is finished."""
    bounds = {"starts_at": "2030-01-01T00:02:00Z", "ends_at": "2030-01-01T01:04:00"}  # the zone is Paris
    job = await world.add({**MINUTELY, **bounds, "late_after": 600}, "j")
    assert job.next_due == seconds(120)
    assert await world.service.jobs.next("j") == [seconds(120), seconds(180), seconds(240)]
    done = await fire_at(world, 290)
    assert (done.state, done.next_due) == (JobState.FINISHED, None)
    assert [run.nominal for run in await runs_of(world)] == [seconds(120), seconds(180), seconds(240)]
    with pytest.raises(InvalidSchedule, match="and up to 2030-01-01T01:04:30"):
        await world.update("j", {"ends_at": "2030-01-01T01:04:30", "schedule": "*/2 * * * *"})
    assert (await world.update("j", {"ends_at": None})).next_due == seconds(300)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"starts_at": "tomorrow"}, "starts_at"),
        ({"ends_at": "2030-13-01T00:00:00Z"}, "ends_at"),
        ({"starts_at": "2031-01-01T00:00:00Z", "ends_at": "2030-06-01T00:00:00Z"}, "ends_at"),
        ({"ends_at": "2029-01-01T00:00:00Z"}, "schedule"),
        ({"schedule": None, "starts_at": "2031-01-01T00:00:00Z"}, "starts_at"),
        ({"schedule": "@reboot", "ends_at": "2031-01-01T00:00:00Z"}, "ends_at"),
        ({"delay": -1}, "delay"),
        ({"jitter": "much"}, "jitter"),
        ({"anchored_on": "moon"}, "anchored_on"),
        ({"anchored_on": "last run"}, "anchored_on"),
        ({"anchored_on": "last run", "schedule": "R3/2031-01-01T00:00:00Z/PT1H"}, "anchored_on"),
        ({"anchored_on": "last run", "schedule": "R/PT1H/2031-01-01T00:00:00Z"}, "anchored_on"),
        ({"anchored_on": "last run", "schedule": None}, "anchored_on"),
    ],
)
async def test_terms_that_mean_nothing_are_refused(world: World, terms: dict[str, object], field: str) -> None:
    """The error names the field and says what may stand there; nothing is added."""
    with pytest.raises(InvalidInput) as caught:
        await world.add({**MINUTELY, **terms}, "j")
    assert caught.value.field == field
    assert caught.value.allowed
    assert (await world.service.jobs.list()).jobs == []


# Delay


async def test_an_edit_leaves_what_waits_for_its_delay(world: World) -> None:
    """An occurrence whose delay is not over runs when it is, by the definition of then."""
    await world.add({**MINUTELY, "delay": 90}, "j")
    await fire_at(world, 100)
    assert await runs_of(world) == []
    edited = await world.update("j", {"name": "other"})
    assert edited.next_due == seconds(150)
    await fire_at(world, 151)
    assert [(run.nominal, run.due) for run in await runs_of(world)] == [(seconds(60), seconds(150))]


async def test_another_schedule_takes_over_at_once(world: World) -> None:
    """What still waited for its delay under the old schedule is skipped, and in the ledger."""
    await world.add({**MINUTELY, "delay": 90}, "j")
    world.clock.moment = seconds(130)
    edited = await world.update("j", {"schedule": "*/5 * * * *"})
    assert edited.next_due == seconds(390)
    (skip,) = await world.service.jobs.skips("j")
    assert (skip.first, skip.last, skip.count) == (seconds(60), seconds(120), 2)


async def test_a_shorter_delay_brings_forward_what_waits(world: World) -> None:
    """An occurrence that had waited longer than the new delay is due now."""
    await world.add({**MINUTELY, "delay": 600}, "j")
    world.clock.moment = seconds(130)
    assert (await world.update("j", {"delay": 60})).next_due == seconds(120)


# Anchors and tzdata


async def test_an_edit_keeps_the_anchor_of_the_last_run(world: World) -> None:
    """An interval goes on counting from its last run, unless its schedule changes."""
    await world.add({"noop": True, "schedule": "every 10 minutes", "anchored_on": "last run"}, "j")
    assert (await fire_at(world, 610)).next_due == seconds(1210)
    world.clock.moment = seconds(700)
    assert (await world.update("j", {"name": "x"})).next_due == seconds(1210)
    assert (await world.update("j", {"schedule": "every 5 minutes"})).next_due == seconds(1000)


async def test_a_pause_moves_the_anchor_of_the_last_run(world: World) -> None:
    """What a paused job missed was one moment; it goes on an interval after its resume."""
    await world.add({"noop": True, "schedule": "every 10 minutes", "anchored_on": "last run"}, "j")
    await world.service.jobs.pause("j")
    world.clock.moment = Moment(NEW_YEAR + HOUR)
    resumed = await world.service.jobs.resume("j")
    assert (resumed.anchor, resumed.next_due) == (NEW_YEAR + HOUR, NEW_YEAR + HOUR + 10 * MINUTE)
    (skip,) = await world.service.jobs.skips("j")
    assert skip.count == 1


async def test_a_job_says_by_which_tzdata_it_was_reckoned(world: World) -> None:
    """Added, edited, resumed: whatever computes the next moment leaves its version, with each run too."""
    job = await world.add(Definition(target=Noop(), schedule="* * * * *"), "j")
    assert job.tzdata == tzdata_version()
    await fire_at(world, 60)
    (run,) = await runs_of(world)
    assert (run.details.tzdata, format_moment(run.nominal)) == (tzdata_version(), "2030-01-01T00:01:00Z")


async def test_a_bound_is_quoted_as_typed(world: World) -> None:
    """The error shows what stood there, not what was made of it."""
    with pytest.raises(InvalidSchedule, match=r"starts_at: 'tomorrow' is not a valid time"):
        await world.add({**MINUTELY, "starts_at": "tomorrow"}, "j")
