"""How jobs that are imported go on."""

from typing import Any

import pytest

from tests.unit.service.world import World
from tokimori.clock import MINUTE, Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.job import JobState
from tokimori.service.definitions.imports import Start


async def imported(world: World, start: Start, **fields: object) -> Any:
    """The job that an import adds."""
    definition = world.define({"noop": True, "schedule": "* * * * *", **fields})
    await world.service.jobs.import_all([("j", definition)], starts={"j": start})
    return await world.service.jobs.get("j")


async def test_a_job_that_had_failed_comes_parked(world: World) -> None:
    """It never runs before it is resolved, and the failure is the reason."""
    job = await imported(world, Start(parked_because="exit status 1"))
    assert (job.state, job.reason, job.next_due) == (JobState.PARKED, "exit status 1", None)
    assert (await world.service.jobs.resolve("j")).state is JobState.ENABLED


async def test_a_job_that_was_disabled_comes_paused(world: World) -> None:
    """As with a reason in `paused_because`."""
    job = await imported(world, Start(paused_because="disabled there"))
    assert (job.state, job.reason) == (JobState.PAUSED, "disabled there")


async def test_what_was_missed_elsewhere_is_decided_here(world: World) -> None:
    """From `since` on all moments are decided, but none of them before `not_before`."""
    now = await world.service.db.now()
    job = await imported(world, Start(since=Moment(now - 3 * MINUTE), not_before=Moment(now + MINUTE)), misfire="all")
    assert job.fired_through == now - 3 * MINUTE - 1
    assert job.next_due == now + MINUTE


@pytest.mark.parametrize("hours", [1, 25])
async def test_an_interval_goes_on_from_its_last_run_elsewhere(world: World, hours: int) -> None:
    """The next run is an interval after it, and due at once where that has passed."""
    now = await world.service.db.now()
    ran = Moment(now - hours * 60 * MINUTE)
    job = await imported(world, Start(since=ran), schedule="R/2020-01-01T00:00:00Z/P1D", anchored_on="last run")
    assert job.next_due == ran + 24 * 60 * MINUTE


async def test_what_is_past_comes_in_where_it_is_to_be_decided(world: World) -> None:
    """A job for one moment that has passed is refused, unless it goes on since then: it is due at once."""
    passed = Moment(await world.service.db.now() - MINUTE)
    schedule = f"at {format_moment(passed)}"
    with pytest.raises(InvalidInput, match="names no moment after"):
        await imported(world, Start(), schedule=schedule)
    job = await imported(world, Start(since=passed), schedule=schedule)
    assert (job.state, job.next_due) == (JobState.ENABLED, passed)


@pytest.mark.parametrize(
    "starts",
    [
        {"j": "paused"},
        ["j"],
        {"j": Start(paused_because="x" * 10_000)},
        {"j": Start(parked_because="\0")},
        {"j": Start(since=Moment(2**62))},
        {"j": Start(not_before=Moment(-(2**62)))},
    ],
)
async def test_a_start_that_can_not_be_is_refused(world: World, starts: Any) -> None:
    """Nothing is added."""
    with pytest.raises(InvalidInput):
        await world.service.jobs.import_all([("j", world.define({"noop": True}))], starts=starts)
    assert (await world.service.jobs.list()).jobs == []
