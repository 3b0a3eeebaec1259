"""Changes of definitions are told of on every store, also those of writers that are slow."""

import asyncio
import os

from tests.contract.stores.actors import NOW, Worker, a_job, add_runs
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.engine.parkings import record_parked
from tokimori.model.audit import Changed
from tokimori.model.document import Document
from tokimori.model.job import Job
from tokimori.model.outcome import Failed
from tokimori.model.policies import OnExhausted
from tokimori.ports.ends import EndPlace
from tokimori.ports.store import Store
from tokimori.service.audit import Audit, record
from tokimori.service.events.feed import Feed
from tokimori.service.events.trail import Trail
from tokimori.service.operation import Inside
from tokimori.service.store_calls import Now


class Slow:
    """The store of a writer whose commits wait until they may go on."""

    def __init__(self, store: Store) -> None:
        self._store, self.may_go = store, asyncio.Event()
        self.delete_document = store.delete_document

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """When it may go on."""
        await self.may_go.wait()
        await self._store.put_document(document, replaces)


def late(now: Now, seconds: int) -> Now:
    """A clock that was looked at so long ago, and then is looked at again."""
    behind = [seconds * SECOND]

    async def told() -> Moment:
        return Moment(await now() - (behind.pop() if behind else 0))

    return told


def audit_of(store: object, now: Now) -> Audit[Inside]:
    """The audit log as one writer writes it."""
    return Audit[Inside](store, now, os.urandom, "ada")  # type: ignore[arg-type]


async def no_job(job_id: str) -> Job:
    """Nobody asks for jobs here."""
    raise AssertionError(job_id)


class Reader:
    """Whoever follows, by a feed that looks when it is told to."""

    def __init__(self, store: Store, now: Now) -> None:
        clock = SystemClock()
        self.feed = Feed[Changed](Trail(store), clock, os.urandom, now=now, job_of=no_job, stops=lambda: False)
        self.at = self.feed.position
        self.told: list[str] = []

    async def look(self) -> None:
        """Look at the store once, and note what is new."""
        async with self.feed._looking:
            await self.feed._read_store()
        self.told += [each.name for each in (await self.feed.page(self.at)).found]
        self.at = self.feed.position

    async def begin(self) -> None:
        """From now on."""
        await self.feed.begin()
        self.at = self.feed.position


async def test_nothing_of_two_slow_writers_is_left_out(store: Store) -> None:
    """What appears behind others that were told of is told of when it appears, and once."""
    reader, first, second = Reader(store, store.now), Slow(store), Slow(store)
    await reader.begin()
    tasks = []
    for number in range(4):
        for name, slow in (("first", first), ("second", second)):
            log = audit_of(slow, late(store.now, 3))
            tasks.append(asyncio.create_task(record(log, "pause", f"job {name}{number}", None, {"n": number})))
        await record(audit_of(store, store.now), "pause", f"job quick{number}", None, None)
        await reader.look()
    assert reader.told == [f"quick{number}" for number in range(4)]
    first.may_go.set()
    await asyncio.gather(*tasks[::2])
    await reader.look()
    second.may_go.set()
    await asyncio.gather(*tasks[1::2])
    await reader.look()
    await reader.look()
    assert sorted(reader.told) == sorted(
        f"{name}{number}" for name in ("first", "quick", "second") for number in range(4)
    )


async def test_who_writes_too_late_writes_anew(store: Store) -> None:
    """An entry that no reader would look for any more is under a later moment, once, with the moment of the change."""
    await record(audit_of(store, late(store.now, 60)), "pause", "job a", None, None)
    found = await Trail(store).ended_since(EndPlace(Moment(await store.now() - 5 * SECOND)), 10)
    (change,) = found.found
    assert change.name == "a" and change.written - change.at >= 59 * SECOND
    assert len(await store.list_documents("audit")) == 1


async def test_a_job_that_a_failure_parks_is_told_of(store: Store, worker: Worker) -> None:
    """With the error of its run, by whom, and once for all its runs that failed together."""
    job = a_job("a", on_exhausted=OnExhausted.PARK)
    await store.add_jobs([job])
    await add_runs(store, job, 2)
    changes = [worker.change(claimed, Failed(error="it broke")) for claimed in await worker.claim()]
    await record_parked(store, changes, await store.settle(changes, worker.id, NOW))
    (change,) = (await Trail(store).ended_since(EndPlace(Moment(1)), 10)).found
    assert (change.event, change.name, change.by, change.reason) == ("job.parked", "a", "tokimori", "it broke")
    await record_parked(store, changes, await store.settle(changes, worker.id, NOW))
    assert len(await store.list_documents("audit")) == 1
