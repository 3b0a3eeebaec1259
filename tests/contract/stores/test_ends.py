"""Ends of runs are read in the order in which they were written, whatever the moments are at which they ended."""

import asyncio
import os

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed
from tokimori.model.retention import KEYS_KEPT, expiry_of
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.ends import LATEST, EndedRun, EndPlace
from tokimori.ports.store import Store
from tokimori.service.service import service_on

BEGIN = EndPlace(Moment(1))


async def ends_of(store: Store, place: EndPlace = BEGIN, limit: int = 1000) -> list[EndedRun]:
    """All ends from behind this place on, in pages of that size."""
    found: list[EndedRun] = []
    rest: EndPlace | None = place
    while rest is not None:
        page = await store.ended_since(rest, limit)
        found += page.found
        rest = page.rest
    return found


async def end(worker: Worker, number: int, now: Moment = NOW) -> list[str]:
    """Run so many of what is ready, one after the other; their ids."""
    ended = list[str]()
    for claimed in await worker.claim(number):
        await worker.settle(claimed, now=now)
        ended.append(claimed.run.id)
    return ended


async def test_ends_are_in_the_order_in_which_they_were_written(store: Store, worker: Worker) -> None:
    """A run that ended earlier and was settled later comes later."""
    job = await add_job(store)
    await add_runs(store, job, 3)
    first, second, third = await worker.claim()
    for claimed, moment in ((second, later(60)), (first, later(30)), (third, NOW)):
        await worker.settle(claimed, now=moment)
        await asyncio.sleep(0.003)  # SQLite's moments are milliseconds
    assert [(each.id, each.ended) for each in await ends_of(store)] == [
        (second.run.id, later(60)),
        (first.run.id, later(30)),
        (third.run.id, NOW),
    ]


async def test_the_ended_ones_among_some_runs(store: Store, worker: Worker) -> None:
    """They are told apart from those that live, and from what no run has ever had as its id."""
    runs = await add_runs(store, await add_job(store), 5)
    ended = await end(worker, 2)
    asked = [*(run.id for run in runs), RunId("0197a1b2-c3d4-7000-8000-000000000000")]
    assert sorted(await store.ended_among(asked)) == sorted(ended)
    assert (await store.ended_among(asked[-1:]), await store.ended_among([])) == ([], [])


async def test_pages_of_ends_fit_together(store: Store, worker: Worker) -> None:
    """Whatever the size of a page, each end is read once, where many were written in one transaction, too."""
    job = await add_job(store)
    await add_runs(store, job, 7)
    changes = [worker.change(claimed) for claimed in await worker.claim()]
    await store.settle(changes[:5], worker.id, NOW)
    await asyncio.sleep(0.003)  # SQLite's moments are milliseconds
    await store.settle(changes[5:], worker.id, NOW)
    whole = await ends_of(store)
    assert sorted(each.id for each in whole) == sorted(change.run_id for change in changes)
    assert {each.id for each in whole[:5]} == {change.run_id for change in changes[:5]}
    for limit in (1, 2, 3, 7):
        assert await ends_of(store, limit=limit) == whole


async def test_reading_goes_on_behind_a_place(store: Store, worker: Worker) -> None:
    """From the moment of an end on that end is read again, and what came before it is not."""
    job = await add_job(store)
    await add_runs(store, job, 2)
    await end(worker, 1)
    await asyncio.sleep(0.003)  # SQLite's moments are milliseconds
    await end(worker, 1)
    first, second = await ends_of(store)
    assert await ends_of(store, EndPlace(second.written)) == [second]
    assert await ends_of(store, EndPlace(first.written)) == [first, second]
    for behind in (1, SECOND):
        assert await ends_of(store, EndPlace(Moment(second.written + behind))) == []


@pytest.mark.parametrize("tie", ["17", "ffffffff-ffff-ffff-ffff-ffffffffffff"])
async def test_a_place_of_another_store_is_no_fault(store: Store, worker: Worker, tie: str) -> None:
    """Whoever brings the position of a store of another kind is told of what was written later."""
    job = await add_job(store)
    await add_runs(store, job, 2)
    await end(worker, 1)
    await asyncio.sleep(0.003)  # SQLite's moments are milliseconds
    await end(worker, 1)
    first, second = await ends_of(store)
    assert second in await ends_of(store, EndPlace(first.written, tie))


async def test_an_end_says_what_became_of_the_run(store: Store, worker: Worker) -> None:
    """It has the state of the run, its job, its attempt and its error."""
    job = await add_job(store)
    (run,) = await add_runs(store, job, 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed(exit_code=3, error="it broke"), later(1))
    (found,) = await ends_of(store)
    assert (found.id, found.job_id, found.origin, found.state) == (run.id, job.id, run.origin, RunState.FAILED)
    assert (found.attempt, found.exit_code, found.error, found.node_id) == (1, 3, "it broke", worker.id)
    assert (found.nominal, found.started, found.ended) == (run.nominal, later(1), later(1))


async def test_what_never_started_ends_too(store: Store) -> None:
    """A run that is cancelled before it starts, or whose job is deleted, is among the ends."""
    job, gone = await add_job(store), await add_job(store, "gone")
    (run,), (other,) = await add_runs(store, job, 1), await add_runs(store, gone, 1)
    await store.cancel_run(run.id, "not needed", NOW)
    await store.delete_job(gone.id, NOW)
    found = {each.id: (each.state, each.started) for each in await ends_of(store)}
    assert found == dict.fromkeys((run.id, other.id), (RunState.CANCELLED, None))


async def test_no_run_that_lives_is_among_the_ends(store: Store, worker: Worker) -> None:
    """What waits, runs, or waits for its next attempt has not ended."""
    job = await add_job(store)
    await add_runs(store, job, 2)
    await store.add_run(a_request(job, due=later(60)), NOW)
    await worker.claim(1)
    assert await ends_of(store) == []


async def test_the_moment_of_an_end_is_that_of_the_store(store: Store, worker: Worker) -> None:
    """It was written between two looks at the store's clock, give or take the delay that is allowed for."""
    job = await add_job(store)
    await add_runs(store, job, 1)
    before = await store.now()
    await end(worker, 1, later(500))
    (found,) = await ends_of(store)
    if before != NOW:  # else its clock stands still, but for the database's own
        assert before - LATEST < found.written <= await store.now() + LATEST


async def test_pruned_and_copied_runs_are_left_out(store: Store, worker: Worker) -> None:
    """Who reads gets neither, and still gets what comes behind."""
    job = await add_job(store, retention="PT1S", keep_runs=0)
    await add_runs(store, job, 3)
    old = await end(worker, 3)
    gone = await store.get_run(RunId(old[0]))
    copied = replace(gone, id=a_request(job).id, origin="m:copied")
    await store.prune([expiry_of(job, Moment(NOW + 2 * KEYS_KEPT))], 100)  # type: ignore[list-item]
    assert await ends_of(store) == []
    await store.import_rows(Kind.HISTORY, [copied])
    await add_runs(store, job, 1)
    await asyncio.sleep(0.003)
    assert await end(worker, 1) == [each.id for each in await ends_of(store, limit=1)]


async def test_who_reads_beside_writers_gets_each_end(store: Store, worker: Worker, other: Worker) -> None:
    """Of runs that several nodes settle at the same time each is read, if one reads again from `LATEST` before."""
    job = await add_job(store)
    runs = await add_runs(store, job, 60)
    told: set[str] = set()

    async def settle(by: Worker) -> None:
        while claimed := await by.claim(3):
            await store.settle([by.change(each) for each in claimed], by.id, NOW)

    settled = asyncio.gather(settle(worker), settle(other))
    newest, is_last = 0, False
    while not is_last:
        is_last = settled.done()
        found = await ends_of(store, EndPlace(Moment(max(1, newest - LATEST))), limit=7)
        told.update(each.id for each in found)
        newest = max([newest, *(each.written for each in found)])
    await settled
    assert told == {run.id for run in runs}


async def test_notices_name_what_began_and_ended(store: Store, worker: Worker) -> None:
    """Runs are named when they are asked for, begin and end, although nothing is written for notices."""
    service = service_on(store, SystemClock(), os.urandom)
    job = await add_job(store)
    after = (await service.events.notices()).after
    named = []
    run = await store.add_run(a_request(job), NOW)
    named.append(found := await service.events.notices(after, wait=10))
    (claimed,) = await worker.claim()
    named.append(found := await service.events.notices(found.after, wait=10))
    await worker.settle(claimed)
    named.append(await service.events.notices(found.after, wait=10))
    assert [{each.noun: each.ids for each in one.notices} for one in named] == [
        {"runs": (run.id,), "jobs": ("job",)}
    ] * 3
