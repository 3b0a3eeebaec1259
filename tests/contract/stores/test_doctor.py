"""What the doctor reads of every store: the same is in order, and the same is wrong."""

from tests.contract.stores.actors import Worker, add_job, add_runs, later
from tokimori.clock import SystemClock
from tokimori.ports.store import Store
from tokimori.service.doctor.finding import Level
from tokimori.service.doctor.reader import DoctorReader
from tokimori.service.doctor.reading import DoctorReading
from tokimori.service.doctor.rules import findings

OF_THE_TIME = {"ahead", "clock", "store", "promises", "fired", "nodes"}
"""What depends on the machine, or on the time, which tests set."""


async def read(store: Store) -> DoctorReading:
    """What two readings show, between which nothing happens."""

    async def opened() -> Store:
        return store

    async def none() -> list[object]:
        return []

    async def rest(_: float) -> None:
        pass

    reader = DoctorReader(store, opened, none, alarms=none, clock=SystemClock(), apart=False, rest=rest)  # type: ignore[arg-type]
    return await reader.read()


def wrong(reading: DoctorReading) -> dict[str, str]:
    """What is wrong, by check."""
    return {
        each.check: each.text
        for each in findings(reading)
        if each.level is not Level.OK and each.check not in OF_THE_TIME
    }


async def test_a_store_at_work_is_in_order(store: Store, worker: Worker) -> None:
    """A run that holds units, one that waits for them, one in the line of its job and a node: nothing is wrong."""
    runs = await add_runs(store, await add_job(store, max_running=1, semaphores=("s",)), 2)
    await add_runs(store, await add_job(store, "other", semaphores=("s",)), 1)
    assert [each.run.id for each in await worker.claim()] == [runs[0].id]
    reading = await read(store)
    assert wrong(reading) == {}
    assert (len(reading.running), len(reading.blocked), len(reading.semaphores)) == (1, 2, 1)
    assert [node.id for node in reading.silent] == [worker.id]


async def test_what_a_dead_node_has_is_told(store: Store, worker: Worker, other: Worker) -> None:
    """Until another node has settled it, its run is told to be without a node."""
    (run,) = await add_runs(store, await add_job(store), 1)
    await worker.claim()
    beat = next(node.beat for node in await store.list_nodes() if node.id == worker.id)
    assert await store.bury(worker.id, beat, other.id, later(10))
    assert run.id in wrong(await read(store))["running"]
