"""A newcomer that takes the place of very many runs."""

from collections.abc import Sequence
from itertools import count

import msgspec
import pytest

from tests.unit.engine.world import World
from tests.unit.examples import NEW_YEAR, a_run, seconds
from tokimori.clock import Moment
from tokimori.engine import fire
from tokimori.errors import NotFound
from tokimori.model.decide import REPLACED, Plan, decide
from tokimori.model.ids import RunId
from tokimori.model.job import Job
from tokimori.model.policies import Overlap
from tokimori.model.run import Run, manual_origin
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter

MOST = 3
READY = RunState.READY


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """One in which three runs are many."""
    monkeypatch.setattr(fire, "MOST_REPLACED", MOST)
    monkeypatch.setattr(fire, "PAGE", 4)
    monkeypatch.setattr(fire, "AT_ONCE", 2)
    return World()


async def queued(world: World, most: int = 20) -> Job:
    """A job behind which so many scheduled runs stand in line when it is edited: from now on a newcomer replaces."""
    job = await world.add("a")
    await world.fire(most)
    edited = await world.store.get_job(job.id)
    definition = msgspec.structs.replace(job.definition, max_running=1, on_overlap=Overlap.REPLACE)
    after = msgspec.structs.replace(edited, definition=definition, version=edited.version + 1)
    await world.store.replace_job(edited, after)
    return after


def left(runs: Sequence[Run]) -> list[Run]:
    """Those that have not ended."""
    return [run for run in runs if run.state is READY]


def counted(world: World, monkeypatch: pytest.MonkeyPatch) -> Sequence[int]:
    """How many scheduled runs each transaction that makes newcomers finds in line."""
    found, apply = list[int](), world.store.apply

    async def counting(plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        found.append(sum(run.origin.startswith("s:") for run in left(await world.runs("a"))))
        return await apply(plans, now)

    monkeypatch.setattr(world.store, "apply", counting)
    return found


async def test_most_runs_end_before_the_newcomer_comes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction that makes it ends a bounded number of them, however many there were."""
    await queued(world)
    ended_at_once = counted(world, monkeypatch)
    while not ended_at_once:
        assert await world.fire(21) is not None
    assert ended_at_once[0] <= MOST
    runs = await world.runs("a")
    assert [run.nominal for run in left(runs)] == [seconds(21)]
    assert {run.error for run in runs if run.state is RunState.CANCELLED} == {REPLACED}
    assert len(runs) == 21


async def test_requested_runs_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the schedule made is replaced, also where a whole page was asked for by people."""
    job = await queued(world)
    asked = [
        a_run(id=RunId(f"z{n}"), job_id=job.id, incarnation=job.incarnation, origin=manual_origin(f"z{n}"), state=READY)
        for n in range(9)
    ]
    for run in asked:
        await world.store.add_run(run, NEW_YEAR)
    ended_at_once = counted(world, monkeypatch)
    for _ in range(9):
        await world.fire(21)
    runs = left(await world.runs("a"))
    assert sorted(run.id for run in runs if run.nominal != seconds(21)) == [run.id for run in asked]
    assert len(runs) == len(asked) + 1
    assert ended_at_once[0] == 0  # what stands behind pages of requested runs is found, and has ended before


async def test_beats_come_between(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call ends runs for about a quarter of a second, and the next goes on."""
    job = await queued(world)
    due, now, passed = await world.store.get_due(job.id), seconds(21), count(step=0.2)
    plan = decide(due, world.schedule_for(due.job), now)
    monkeypatch.setattr(fire, "PAGE", 100)
    assert not await fire.make_way(world.store, due, plan, now, lambda: next(passed))
    assert len(left(await world.runs("a"))) == 20 - 2


async def test_looking_ends_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pages of requested runs are slow to read, about a quarter of a second is spent on them, not ten pages."""
    job = await queued(world)
    for n in range(40):
        made = {"id": RunId(f"z{n}"), "origin": manual_origin(f"z{n}")}
        await world.store.add_run(a_run(job_id=job.id, incarnation=job.incarnation, state=READY, **made), NEW_YEAR)
    due, now, passed, pages = await world.store.get_due(job.id), seconds(21), count(step=0.2), list[RunFilter]()
    plan, list_runs = decide(due, world.schedule_for(due.job), now), world.store.list_runs

    async def noted(wanted: RunFilter) -> list[Run]:
        pages.append(wanted)
        return await list_runs(wanted)

    monkeypatch.setattr(world.store, "list_runs", noted)
    assert await fire.make_way(world.store, due, plan, now, lambda: next(passed))
    assert len(pages) == 2


async def test_runs_that_are_gone_hinder_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node ends the same ones, and what has ended may be pruned meanwhile."""
    await queued(world)
    cancel = world.store.cancel_run

    async def cancelled(run_id: RunId, reason: str, now: Moment) -> Run:
        await cancel(run_id, reason, now)
        raise NotFound("no such run", field="run", value=run_id)

    monkeypatch.setattr(world.store, "cancel_run", cancelled)
    for _ in range(9):
        await world.fire(21)
    assert [run.nominal for run in left(await world.runs("a"))] == [seconds(21)]
