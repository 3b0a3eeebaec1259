"""Reader of the store for `why`: it reads what may hold a run or a job, in a few short lists."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.engine.rewind import jobs_ahead
from tokimori.engine.settle import SPAWNED_TOGETHER
from tokimori.errors import NotFound, StoreError
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job
from tokimori.model.lanes import units_apart
from tokimori.model.parents import ParentRun
from tokimori.model.request import shared_prefix
from tokimori.model.run import NEVER, Run, Skip, Spawned
from tokimori.model.semaphores import KEY_LINE, is_rate_alone, semaphore_of, wanted
from tokimori.model.transitions import BEFORE_START, ENDS, RunState
from tokimori.ports.documents import Documents
from tokimori.ports.ends import Endings
from tokimori.ports.nodes import NodeRecord, Nodes
from tokimori.ports.planning import Pausing
from tokimori.ports.pruning import Pruning
from tokimori.ports.semaphores import Permit, Semaphore, SemaphoreTable
from tokimori.ports.store import Jobs, RunFilter, Runs
from tokimori.service.nodes import nodes_of
from tokimori.service.reasons import HeldBy
from tokimori.service.search.runs import parent_runs
from tokimori.service.why.reading import Units, WhyReading
from tokimori.service.why.run import NAMED

MOST_READ = 1_000
"""Number of running runs looked at."""
_FEW = 100
"""Number of running runs of one job that are looked at."""
_MOST_SEMAPHORES = 10
"""Number of semaphores of a job looked at."""


class WhyStore(Jobs, Runs, Endings, Nodes, Documents, Pausing, Pruning, SemaphoreTable, Protocol):
    """The part of the store that is asked."""


class WhySemaphoreStore(SemaphoreTable, Nodes, Protocol):
    """The part of the store of the semaphores that is asked."""


class WhyReader:
    """Reader of a store for `why`. `opened` returns the store of the semaphores; `apart`: it is another one.

    `now` returns the time, `doubted` whether the asked node distrusts its clock.
    """

    def __init__(
        self,
        store: WhyStore,
        opened: Callable[[], Awaitable[WhySemaphoreStore]],
        *,
        now: Callable[[], Awaitable[Moment]],
        apart: bool,
        doubted: bool,
    ) -> None:
        self._store = store
        self._opened = opened
        self._now = now
        self._apart = apart
        self._doubted = doubted

    async def of_run(self, run: Run, job: Job | None) -> WhyReading:
        """Read everything that may hold the run, in detail if it has not started."""
        now, beside = await self._now(), await self._other_holder(run)
        if run.state is RunState.RUNNING:
            return WhyReading(now=now, job=job, run=run, nodes=await nodes_of(self._store), beside=beside)
        if run.state is RunState.WAITING and run.details.spawned is not None:
            live, spawned = await self._live(run.id, run.details.spawned)
            return WhyReading(now=now, job=job, run=run, beside=beside, live=live, spawned=spawned)
        if run.state not in BEFORE_START or job is None:
            return WhyReading(now=now, job=job, run=run, beside=beside)
        return replace(await self._read(job, run, now, None), beside=beside)

    async def _live(self, run_id: RunId, spawned: Spawned) -> tuple[int, Sequence[ParentRun]]:
        """Return how many of the spawned runs have not ended, and the first ones of them that are made."""
        live = list[RunId]()
        for first in range(0, spawned.count, SPAWNED_TOGETHER):
            ids = spawned.ids(run_id, first, SPAWNED_TOGETHER)
            ended = set(await self._store.ended_among(ids))
            live += (each for each in ids if each not in ended)
        return len(live), await parent_runs(self._store, live[:NAMED])

    async def _other_holder(self, run: Run) -> Run | None:
        """Return the run that held the key of a unique run meanwhile: the first one, among the job's newest."""
        if run.details.beside is not None:
            with suppress(NotFound):
                return await self._store.get_run(run.details.beside)
        if run.details.unique is None:
            return None
        newest = await self._store.list_runs(RunFilter(job_id=run.job_id, limit=MOST_READ, longest=0))
        same = (each for each in newest if each.id > run.id and shared_prefix(each) == shared_prefix(run))
        ended = run.ended if run.state in ENDS else None
        return min(
            (each for each in same if ended is None or each.created < ended), key=lambda each: each.id, default=None
        )

    async def of_job(self, job: Job) -> WhyReading:
        """Read everything that may hold the job, and the first of its newest unstarted runs."""
        due, now = await self._store.get_due(job.id), await self._now()
        reading = await self._read(job, await self._first_of(job), now, due.tail)
        return replace(reading, ahead=bool(await jobs_ahead(self._store, [job], now)))

    async def _first_of(self, job: Job) -> Run | None:
        """Return the first unstarted run among the newest runs, which cost little to read, or else among all."""
        found = [run for run in await self._store.last_runs([job.id], _FEW, 0) if run.state in BEFORE_START]
        if not found:
            found = await self._store.list_runs(RunFilter(job_id=job.id, states=BEFORE_START, limit=_FEW, longest=0))
        own = (run for run in found if run.incarnation == job.incarnation and run.due != NEVER)
        first = min(own, key=_place, default=None)
        with suppress(NotFound):
            return None if first is None else await self._store.get_run(first.id)  # a held one says why in its error
        return first

    async def _read(self, job: Job, run: Run | None, now: Moment, tail: Skip | None) -> WhyReading:
        pauses, nodes, siblings, running, units = await asyncio.gather(
            self._store.list_pauses(),
            nodes_of(self._store),
            self._siblings(job.id, run),
            self._running(run),
            self._units(job, run),
        )
        return WhyReading(
            now=now,
            job=job,
            run=run,
            pauses=pauses,
            nodes=nodes,
            siblings=siblings,
            running=running,
            many=len(running) == MOST_READ,
            units=units,
            tail=tail,
            doubted=self._doubted,
            apart=self._apart,
        )

    async def _siblings(self, job_id: JobId, run: Run | None) -> Sequence[Run]:
        """Return the running runs of the job, else for a blocked run the ready ones: one of them is the next."""
        most = MOST_READ if run is not None and run.blocked_on == KEY_LINE else _FEW
        running = RunFilter(job_id=job_id, states=frozenset({RunState.RUNNING}), limit=most, longest=0)
        ready = RunFilter(job_id=job_id, states=frozenset({RunState.READY}), limit=most, longest=0)
        found = await self._store.list_runs(running)
        if run is not None and run.blocked_on == KEY_LINE:
            found = [each for each in found if each.concurrency_key == run.concurrency_key]
        is_blocked = run is not None and run.state is RunState.BLOCKED
        return found or (await self._store.list_runs(ready) if is_blocked else [])

    async def _running(self, run: Run | None) -> Sequence[Run]:
        """Return running runs, if the run could be waiting for a node to have room."""
        if run is None or run.state is not RunState.READY:
            return ()
        running = RunFilter(states=frozenset({RunState.RUNNING}), limit=MOST_READ, longest=0)
        return await self._store.list_runs(running)

    async def _units(self, job: Job, run: Run | None) -> dict[str, Units]:
        names = [name for name, _ in wanted(job.definition.semaphores)]
        if run is not None:
            line = semaphore_of(run.blocked_on)
            lane = [] if run.lane is None else [name for name, _ in units_apart(run.lane)]
            names = ([] if line is None else [line]) + lane + names
        return {name: await self._units_of(name) for name in list(dict.fromkeys(names))[:_MOST_SEMAPHORES]}

    async def _units_of(self, name: str) -> Units:
        try:
            store = self._store if is_rate_alone(name) else await self._opened()
            found = await store.get_semaphore(name)
            return await self._units_in(store, found)
        except NotFound:
            return Units()
        except StoreError as fault:
            return Units(fault=str(fault))

    async def _units_in(self, store: WhySemaphoreStore, found: Semaphore) -> Units:
        named, nodes = found.holders[:NAMED], await store.list_nodes() if found.holders else []
        return Units(
            limit=found.limit,
            used=found.used,
            holders=tuple([await self._holder(permit, nodes) for permit in named]),
            others=len(found.holders) - len(named),
            rate=found.rate,
            taken=found.taken,
            goes_on=found.wakes,
        )

    async def _holder(self, permit: Permit, nodes: Sequence[NodeRecord]) -> HeldBy:
        """Return a run by its job, which another store may not know; a program by its process."""
        node = next((each for each in nodes if each.id == permit.node), None)
        host, pid = (None, None) if node is None else (node.host, node.pid)
        if permit.run_id is None:
            return HeldBy(host=host, pid=pid)
        return HeldBy(run_id=permit.run_id, job_id=await self._job_of(permit.run_id), state="running", host=host)

    async def _job_of(self, run_id: RunId) -> JobId | None:
        with suppress(NotFound):
            return (await self._store.get_run(run_id)).job_id
        return None


def _place(run: Run) -> tuple[bool, int, str]:
    """Return the sort key: due runs come before those that wait for their moment."""
    return run.state is RunState.WAITING, run.rank, run.id
