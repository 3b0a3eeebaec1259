"""What firing is tested on: a store, a clock, and schedules that the test gives."""

from collections.abc import Iterator
from itertools import count

from tests.unit.examples import Every, a_definition, a_job, seconds
from tokimori.clock import SECOND, Moment
from tokimori.engine.fire import fire
from tokimori.errors import InvalidSchedule
from tokimori.model.ids import Incarnation, JobId, Lane
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.ports.store import RunFilter
from tokimori.schedules.schedule import Schedule
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock


def entropy() -> Iterator[bytes]:
    """Different bytes, the same in every test."""
    return ((n << 8).to_bytes(8) for n in count(1))


class World:
    """A store, a clock, and nobody else."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.bytes = entropy()
        self.schedules: dict[str, Schedule] = {}

    def random(self, n: int) -> bytes:
        """So many bytes."""
        return next(self.bytes)[:n].rjust(n, b"\0")

    def schedule_for(self, job: Job) -> Schedule:
        """The schedule that the test gave the job, or every second."""
        return self.schedules.get(job.id, Every(SECOND))

    async def add(self, name: str, **terms: object) -> Job:
        """A job that is due every second, overlapping."""
        definition = a_definition(**{"max_running": 0, **terms})
        incarnation = Incarnation(len(await self.store.list_jobs()) + 1)
        job = a_job(definition, id=JobId(name), incarnation=incarnation, next_due=seconds(1))
        await self.store.add_jobs([job])
        return job

    async def fire(self, at: float, limit: int = 500) -> frozenset[Lane] | None:
        """Fire at this second; the lanes of the new runs, None where nothing was due."""
        fired = await fire(self.store, seconds(at), self.random, self.schedule_for, limit=limit)
        return None if fired is None else fired.lanes

    async def nominals(self, name: str) -> list[Moment]:
        """The nominal moments of the job's runs."""
        return sorted(run.nominal for run in await self.runs(name))

    async def runs(self, name: str) -> list[Run]:
        """All runs of the job."""
        return await self.store.list_runs(RunFilter(job_id=JobId(name), limit=10**6))


class Broken:
    """A schedule that can't be asked."""

    def next_after(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        raise InvalidSchedule(f"no moment after {moment}")

    last_before = next_after

    def count(self, after: Moment, through: Moment) -> int:
        """See `Schedule`."""
        raise InvalidSchedule(f"no moments from {after} to {through}")
