"""What is decided before a job is edited takes a bounded time."""

import asyncio
from itertools import count

import pytest

from tests.unit.service.world import World
from tokimori.errors import Refused
from tokimori.model.ids import JobId
from tokimori.service.jobs import writer as job_writer


async def test_an_edit_waits_a_bounded_time_for_what_the_job_has_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused with what to do; what was decided stays so, and the same edit goes on from there to its end."""
    monkeypatch.setattr(job_writer, "LONGEST", 1)
    await world.add({"noop": True, "schedule": "* * * * *", "misfire": "all", "late_after": 1}, "j")
    world.pass_seconds(60 * 100)
    ticks, began = count(), world.clock.monotonic()
    monkeypatch.setattr(world.clock, "monotonic", lambda: began + next(ticks) * 0.01)
    reached = [(await world.service.jobs.get("j")).fired_through]
    for _ in range(50):
        try:
            edited = await world.service.jobs.update("j", schedule="0 9 * * *")
        except Refused as fault:
            assert "ask again, it goes on from there" in fault.message
            reached.append((await world.service.jobs.get("j")).fired_through)
        else:
            break
    assert len(reached) > 2
    assert reached == sorted(set(reached))
    assert edited.definition.schedule == "0 9 * * *"
    assert len(await world.service.runs.list(job_id=edited.id, limit=200)) == 100


@pytest.mark.parametrize("verb", ["resume", "update"])
async def test_what_a_paused_job_has_missed_is_counted_in_steps(
    world: World, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The loop goes on between them; where they take too long the next one goes on from there, to one row of skips."""
    monkeypatch.setattr(job_writer, "LONGEST", 1)
    await world.add({"noop": True, "schedule": "R/2020-01-01T00:00:00Z/PT0.25S; * * * * *"}, "j")
    await world.service.jobs.pause("j")
    world.pass_seconds(30)
    ticks, began, turns = count(), world.clock.monotonic(), 0
    monkeypatch.setattr(world.clock, "monotonic", lambda: began + next(ticks) * 0.02)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    refused = 0
    for _ in range(50):
        try:
            asked = {"description": "new"} if verb == "update" else {}
            await getattr(world.service.jobs, verb)("j", **asked)
            break
        except Refused as fault:
            assert "it goes on from there" in fault.message
            refused += 1
    beside.cancel()
    (skip,) = await world.store.skips(JobId("j"))
    assert skip.count == (skip.last - skip.first) // 250_000 + 1 >= 120
    assert (refused > 1, turns > 20) == (True, True)
