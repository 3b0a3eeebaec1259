"""A failure is one notification on every store, though two nodes tell of it at once, or one dies on the way."""

import asyncio
import json
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import Worker, a_job, add_runs, later, random_bytes
from tokimori.clock import SECOND, Moment
from tokimori.engine.notifications import Messenger
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import NodeId, RunId
from tokimori.model.notifier import Notifier, NotifyOn, notifier_id
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Run
from tokimori.ports.ends import EndPlace
from tokimori.ports.store import RunFilter, Store

OPS = notifier_id("ops")
TOLD = {NotifyOn.FAILURE: ("ops",), NotifyOn.RECOVERY: ("ops",)}


class Meddled:
    """The store as one node sees it, with something in front of a call."""

    def __init__(self, store: Store, call: str, first: Any) -> None:
        self._store, self._call, self._first = store, call, first

    def __getattr__(self, name: str) -> Any:
        """The store's own, or behind what comes first."""
        found = getattr(self._store, name)
        if name != self._call:
            return found

        async def call(*given: object) -> object:
            await self._first()
            return await found(*given)

        return call


class ZonedNotifier:
    """A node that notifies."""

    def __init__(self, name: str, store: object) -> None:
        self.id, self.messenger = NodeId(name), Messenger(cast(Store, store), 0, random_bytes)

    async def look(self, failed: Moment, first: int, last: int) -> None:
        """At each of these seconds behind the failure."""
        for second in range(first, last):
            await self.messenger.step(self.id, Moment(failed + second * SECOND), second)


async def prepare(store: Store, worker: Worker) -> tuple[Moment, Run, Run]:
    """A notifier, whose runs nobody takes, and a job that names it. Two runs, of which the first has failed.

    When that was written, which the store's own clock says.
    """
    bad, ops = a_job("bad", notify=TOLD), a_job(OPS, notifier=Notifier(), queue="told")
    await store.add_jobs([replace(ops, created=Moment(1)), bad])
    first, second = await add_runs(store, bad, 2)
    (claimed,) = await worker.claim(limit=1)
    await worker.settle(claimed, Failed("exit code 3"), later(1))
    (end,) = (await store.ended_since(EndPlace(Moment(1)), 9)).found
    return end.written, first, second


async def told(store: Store) -> list[tuple[str, RunId, str]]:
    """The event, the run and the error of each notification; its id is that of its run."""
    found = []
    for run in await store.list_runs(RunFilter(job_id=OPS, limit=100)):
        said = json.loads((await store.get_run(run.id)).payload or "")
        assert (said["id"], run.origin) == (run.id, f"m:notify:{run.id}")
        found.append((said["event"], said["run_id"], said["error"]))
    return found


async def test_a_failure_is_told_once_and_its_end(store: Store, worker: Worker) -> None:
    """However often a node looks at it."""
    failed, first, second = await prepare(store, worker)
    node = ZonedNotifier("one", store)
    await node.look(failed, 1, 9)
    assert await told(store) == [("failure", first.id, "exit code 3")]
    (claimed,) = (each for each in await worker.claim() if each.run.id == second.id)
    await worker.settle(claimed, Succeeded(), later(2))
    await node.look(failed, 9, 30)
    assert sorted(await told(store)) == [("failure", first.id, "exit code 3"), ("recovery", second.id, None)]


async def test_two_nodes_at_once_tell_of_it_once(store: Store, worker: Worker) -> None:
    """Both have read the same, and write at the same time: the store takes one of them."""
    failed, first, _ = await prepare(store, worker)
    writing, wrote = asyncio.Barrier(2), list[int]()

    async def meet() -> None:
        if len(wrote) < 2:
            wrote.append(1)
            async with asyncio.timeout(10):
                await writing.wait()

    nodes = [ZonedNotifier(name, Meddled(store, "put_document", meet)) for name in ("one", "other")]
    for second in range(1, 30):  # together: of two whose clocks differ by many seconds one takes the other for silent
        await asyncio.gather(*(node.look(failed, second, second + 1) for node in nodes))
    assert len(wrote) == 2
    assert await told(store) == [("failure", first.id, "exit code 3")]


@pytest.mark.parametrize("wakes", [False, True], ids=["dies", "sleeps"])
async def test_one_that_ends_between_its_write_and_its_send(store: Store, worker: Worker, wakes: bool) -> None:
    """Another one takes over and sends the same; who was only asleep sends it again, which is the same run."""
    failed, first, _ = await prepare(store, worker)
    asleep, awake = asyncio.Event(), asyncio.Event()

    async def sleep() -> None:
        asleep.set()
        await awake.wait()
        if not wakes:
            raise StoreUnavailable("it has died")

    one, other = ZonedNotifier("one", Meddled(store, "add_runs", sleep)), ZonedNotifier("other", store)
    sending = asyncio.create_task(one.look(failed, 1, 3))
    async with asyncio.timeout(10):
        await asleep.wait()
    await other.look(failed, 2, 9)
    assert await told(store) == []  # the first one may be alive
    await other.look(failed, 9, 30)
    assert await told(store) == [("failure", first.id, "exit code 3")]
    awake.set()
    await sending
    await other.look(failed, 30, 45)
    assert await told(store) == [("failure", first.id, "exit code 3")]
