"""What a backfill reckons holds up nobody."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.unit.service.world import World
from tokimori.clock import Moment
from tokimori.errors import Refused
from tokimori.model.backfill import occurrences
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.schedules.schedule import Schedule
from tokimori.service.jobs import backfill, ledger


async def test_occurrences_are_reckoned_beside_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred years beside days off take 0.3 s to count: the loop itself lets the work go on here."""
    go = threading.Event()

    def waiting(schedule: Schedule, first: Moment, last: Moment, most: int) -> Iterator[Moment]:
        assert go.wait(20)
        return occurrences(schedule, first, last, most)

    monkeypatch.setattr(backfill, "occurrences", waiting)
    await world.add(Definition(target=Noop(), schedule="0 9 * * *"), "j")
    asking = asyncio.create_task(
        world.service.jobs.backfill("j", "2029-12-01T00:00:00Z", "2029-12-03T00:00:00Z", dry_run=True)
    )
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(go.set)
    assert len((await asking).missing) == 2


async def test_so_many_runs_are_looked_at_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others lie between the scheduled runs of a range, it is refused with what to ask for instead."""
    monkeypatch.setattr(ledger, "PAGE", 2)
    monkeypatch.setattr(ledger, "MOST_LOOKED_AT", 4)
    await world.add(Definition(target=Noop(), schedule="0 9 * * *"), "j")
    first, last = "2029-12-01T00:00:00Z", "2029-12-03T00:00:00Z"
    for _ in range(4):
        await world.trigger("j")
    assert len((await world.service.jobs.backfill("j", first, last, dry_run=True)).missing) == 2
    await world.trigger("j")
    with pytest.raises(Refused, match="over 4 runs since 2029-12-01T09:00:00Z"):
        await world.service.jobs.backfill("j", first, last, dry_run=True)


async def test_a_large_backfill_is_looked_at_and_cancelled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own runs, which lie before all that is looked for while no other has come since, do not refuse it."""
    monkeypatch.setattr(ledger, "PAGE", 2)
    monkeypatch.setattr(ledger, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr(backfill, "QUIET", 0.0)
    await world.add(Definition(target=Noop(), schedule="0 9 * * *"), "j")
    wanted = "j", "2029-12-01T00:00:00Z", "2029-12-13T00:00:00Z"
    assert len((await world.service.jobs.backfill(*wanted)).runs) == 12
    assert len((await world.service.jobs.backfill(*wanted)).runs) == 12
    cancelled = await world.service.jobs.cancel_backfill(*wanted)
    assert cancelled.states == {RunState.CANCELLED: 12}
