"""Deciding a moment ahead, and writing it at its moment."""

import msgspec
import pytest

from tests.unit.engine.world import Broken, World
from tests.unit.examples import NEW_YEAR, Every, a_run, seconds
from tests.unit.virtual import Link
from tokimori.clock import SECOND
from tokimori.engine.fire import BATCH, Fired, Promoter
from tokimori.engine.firing import FRESH, MOST, NOTHING, Foreseen, fire_foreseen, foresee
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import JobId, Lane, RunId
from tokimori.model.job import JobState
from tokimori.model.transitions import RunState
from tokimori.ports.planning import ALL, Share
from tokimori.ports.store import RunFilter

LANE = Lane("default||")


@pytest.fixture
def world() -> World:
    """An empty one."""
    return World()


async def ahead(world: World, at: float = 1, share_of_many: Share = ALL) -> Foreseen:
    """What is foreseen for this second."""
    return await foresee(world.store, seconds(at), world.random, world.schedule_for, share_of_many)


async def test_what_was_foreseen_has_only_to_be_written(world: World) -> None:
    """At its moment a plain occurrence becomes a run, and nothing more is read or decided."""
    await world.add("a")
    await world.add("b", queue="other", max_running=1)
    foreseen = await ahead(world)
    assert await world.nominals("a") == []
    link = Link(world.store)
    world.schedules["a"] = world.schedules["b"] = Broken()
    fired = await fire_foreseen(link.store, foreseen, seconds(1.01), Promoter(link.store))
    assert fired == Fired(frozenset({LANE, Lane("other||")}), full=False, contended=False)
    assert not foreseen.written.serves(seconds(1.01))
    assert [await world.nominals(name) for name in "ab"] == [[seconds(1)]] * 2
    (run,) = await world.runs("a")
    assert (run.created, run.state) == (seconds(1.01), RunState.READY)
    assert set(link.calls) == {"apply", "promote"}


async def test_what_was_foreseen_is_written_neither_early_nor_late(world: World) -> None:
    """Before its moment nothing is; half a second after it the policies for what is late have to be asked."""
    await world.add("a")
    foreseen = await ahead(world)
    moments = [seconds(0.9), seconds(1), seconds(1) + FRESH, seconds(1) + FRESH + 1]
    assert [foreseen.serves(moment) for moment in moments] == [False, True, True, False]  # type: ignore[arg-type]
    assert not NOTHING.serves(seconds(1))


@pytest.mark.parametrize("change", ["edited", "paused", "deleted", "decided by another node"])
async def test_who_changes_a_job_is_not_overruled(world: World, change: str) -> None:
    """Of a job that was changed after it was foreseen nothing is written; the others of its batch are."""
    job, _ = await world.add("a"), await world.add("b")
    foreseen = await ahead(world)
    match change:
        case "deleted":
            await world.store.delete_job(job.id, NEW_YEAR)
        case "decided by another node":
            await fire_foreseen(world.store, await ahead(world), seconds(1), Promoter(world.store))
        case _:
            state = JobState.PAUSED if change == "paused" else JobState.ENABLED
            await world.store.replace_job(job, msgspec.structs.replace(job, version=2, state=state))
    fired = await fire_foreseen(world.store, foreseen, seconds(1), Promoter(world.store))
    assert fired.contended
    assert len(await world.nominals("a")) == (change == "decided by another node")
    assert await world.nominals("b") == [seconds(1)]


async def test_only_what_is_plain_is_foreseen(world: World) -> None:
    """Where other runs count, several occurrences have come or none can be decided, it is left to the moment."""
    for name in ("plain", "active", "several", "broken"):
        await world.add(name)
    active = await world.store.get_job(JobId("active"))
    run = a_run(id=RunId("r"), job_id=active.id, incarnation=active.incarnation, origin="m:1", state=RunState.READY)
    await world.store.add_run(run, NEW_YEAR)
    world.schedules |= {"several": Every(SECOND // 2), "broken": Broken()}
    foreseen = await ahead(world)
    assert [[plan.job_id for plan, _ in batch] for batch in foreseen.batches] == [["plain"]]
    assert (await fire_foreseen(world.store, foreseen, seconds(1), Promoter(world.store))).full
    assert (await world.store.get_job(JobId("broken"))).state is JobState.ENABLED


async def test_nothing_plain_leaves_it_all_to_the_moment(world: World) -> None:
    """Where something is due, but nothing of it was foreseen, there is nothing to be written first."""
    await world.add("a")
    world.schedules["a"] = Broken()
    assert not (await ahead(world)).serves(seconds(1))


async def test_waiting_runs_become_ready_too(world: World) -> None:
    """A retry is made ready at its moment, whether or not jobs are due then."""
    job = await world.add("a", schedule=None)
    await world.store.replace_job(job, msgspec.structs.replace(job, version=2, next_due=None))
    for name, due in [("early", 1), ("late", 9)]:
        run = a_run(id=RunId(name), job_id=job.id, origin=name, state=RunState.WAITING, due=seconds(due))
        await world.store.add_run(run, NEW_YEAR)
    foreseen = await ahead(world)
    assert foreseen.serves(seconds(1))
    assert await fire_foreseen(world.store, foreseen, seconds(1), Promoter(world.store)) == Fired(
        frozenset(), False, False
    )
    states = [(await world.store.get_run(RunId(name))).state for name in ("early", "late")]
    assert states == [RunState.READY, RunState.WAITING]


async def test_many_are_written_in_batches(world: World) -> None:
    """Of more than are foreseen the first are written, so many in one transaction; then it says that there are more."""
    for number in range(MOST + 1):
        await world.add(f"j{number}")
    foreseen = await ahead(world)
    assert [len(batch) for batch in foreseen.batches] == [BATCH, BATCH]
    assert (await fire_foreseen(world.store, foreseen, seconds(1), Promoter(world.store))).full
    assert len(await world.store.list_runs(RunFilter(limit=10**6))) == MOST


async def test_a_batch_that_fails_loses_none(world: World) -> None:
    """Of two batches one does not arrive: who writes again writes both, and each job has one run."""
    for number in range(MOST):
        await world.add(f"j{number}")
    foreseen = await ahead(world)
    link = Link(world.store)
    link.lose_call["apply"] = 1
    with pytest.raises(StoreUnavailable):
        await fire_foreseen(link.store, foreseen, seconds(1), Promoter(link.store))
    assert len(await world.store.list_runs(RunFilter(limit=10**6))) == BATCH
    assert not (await fire_foreseen(link.store, foreseen, seconds(1), Promoter(link.store))).contended
    assert len(await world.store.list_runs(RunFilter(limit=10**6))) == MOST


async def test_of_many_only_the_share_is_foreseen(world: World) -> None:
    """Nodes that read the same many jobs foresee a part each; a few are everybody's."""
    for number in range(BATCH):
        await world.add(f"j{number}")
    halves = [await ahead(world, share_of_many=Share(part, 2)) for part in range(2)]
    jobs = [{plan.job_id for batch in half.batches for plan, _ in batch} for half in halves]
    assert [len(half) for half in jobs] == [BATCH / 2] * 2
    assert not jobs[0] & jobs[1]
    assert all(half.rest for half in halves)
    await world.store.delete_job(JobId("j0"), NEW_YEAR)
    few = await ahead(world, share_of_many=Share(0, 2))
    assert (len(few.batches[0]), few.rest) == (BATCH - 1, False)


async def test_a_lost_reply_doubles_nothing(world: World) -> None:
    """The reply to the writing is lost: the same is written again, and counts as what it was."""
    await world.add("a")
    foreseen = await ahead(world)
    link = Link(world.store)
    link.lose_reply["apply"] = 1
    with pytest.raises(StoreUnavailable):
        await fire_foreseen(link.store, foreseen, seconds(1), Promoter(link.store))
    fired = await fire_foreseen(link.store, foreseen, seconds(1.1), Promoter(link.store))
    assert fired == Fired(frozenset({LANE}), full=False, contended=False)
    assert await world.nominals("a") == [seconds(1)]
