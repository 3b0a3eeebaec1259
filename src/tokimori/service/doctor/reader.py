"""Reader of a store for the doctor: it reads twice what may be wrong, in short lists."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from tokimori.clock import Clock, Moment
from tokimori.engine.rewind import MOST_NAMED, jobs_ahead
from tokimori.errors import NotFound, StoreError
from tokimori.model.access_token import AccessToken
from tokimori.model.expectation import Alarm
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, Nodes
from tokimori.ports.planning import Pausing, Planning
from tokimori.ports.pruning import Pruning
from tokimori.ports.semaphores import Semaphore, SemaphoreTable
from tokimori.ports.store import Jobs, RunFilter, Runs, Schema, SchemaStatus
from tokimori.service.doctor.reading import MOST_DUE, MOST_RUNS, MOST_SEMAPHORES, DoctorReading, JobsSeen, confirmed
from tokimori.service.doctor.rules import LATE, usable
from tokimori.service.validation import MOST_LISTED

LISTEN = 2.5
"""Seconds between the readings, where nodes are alive: each of them beats meanwhile."""
LONGEST = 20.0
"""Seconds for which jobs are looked at: a million of them."""
_MOST_ASKED = 100
"""Number of holders of units, or of notifiers, that are each read by themselves."""
MOST_SCANNED = 50
"""Number of runs of a state that a node reads for itself, again and again."""
_FEW_ASKED = 20
"""Number of holders of units, or of jobs of runs, that it reads each by themselves."""


class DoctorStore(Schema, Jobs, Runs, Nodes, Pausing, Planning, Pruning, Protocol):
    """The part of the store that is asked."""


class DoctorSemaphoreStore(SemaphoreTable, Nodes, Protocol):
    """The part of the store of the semaphores that is asked."""


class DoctorReader:
    """Reads a store. `opened` gives that of the semaphores; `apart`: it is another one. `rest` waits some seconds."""

    def __init__(
        self,
        store: DoctorStore,
        opened: Callable[[], Awaitable[DoctorSemaphoreStore]],
        tokens: Callable[[], Awaitable[Sequence[AccessToken]]],
        *,
        alarms: Callable[[], Awaitable[Sequence[Alarm]]],
        clock: Clock,
        apart: bool,
        rest: Callable[[float], Awaitable[object]],
    ) -> None:
        self._store = store
        self._opened = opened
        self._tokens = tokens
        self._alarms = alarms
        self._clock = clock
        self._apart = apart
        self._rest = rest
        self._schema: SchemaStatus | None = None

    async def read(self) -> DoctorReading:
        """Return the findings that two readings have in common. Raises `StoreError` if the store does not answer."""
        first = await self._once(JobsSeen())
        listened = LISTEN if first.alive else 0.0
        await self._rest(listened)
        seen = await self._jobs(first.blocked) if usable(first) else JobsSeen()
        return confirmed(first, await self._once(seen), listened)

    async def invariants(self, late: int = LATE) -> DoctorReading:
        """Return one reading of what must always hold, of fewer runs; jobs that are due for over `late` are not fired.

        A store of the semaphores that is away says nothing of them. Raises `StoreError`.
        """
        store, now = self._store, await self._store.now()
        self._schema = self._schema or await store.schema()
        running, blocked = (
            await self._runs(RunState.RUNNING, MOST_SCANNED),
            await self._runs(RunState.BLOCKED, MOST_SCANNED),
        )
        semaphores, programs, _ = await self._semaphores()
        return DoctorReading(
            now=now,
            machine_now=now,
            took=0.0,
            schema=self._schema,
            most_runs=MOST_SCANNED,
            nodes=tuple(await store.list_nodes()),
            due=tuple(each.job for each in await store.due(Moment(now - late), MOST_SCANNED)),
            running=running,
            blocked=blocked,
            held=await self._runs(RunState.HELD, MOST_SCANNED),
            lively=await self._lively(running, semaphores, _FEW_ASKED),
            semaphores=semaphores,
            programs=programs,
            apart=self._apart,
            lanes=(await store.survey(now)).lanes,
            jobs=await self._jobs_of(blocked),
            pauses=tuple(await store.list_pauses()),
        )

    async def _jobs_of(self, runs: Sequence[Run]) -> JobsSeen:
        found = JobsSeen(wanted={run.job_id for run in runs})
        for job_id in list(dict.fromkeys(run.job_id for run in runs))[:_FEW_ASKED]:
            with suppress(NotFound):
                found.add([await self._store.get_job(job_id)])
        return found

    async def _jobs(self, blocked: Sequence[Run]) -> JobsSeen:
        """Look at all jobs, some at a time by their ids, for at most `LONGEST`."""
        began, after, now = self._clock.monotonic(), None, await self._store.now()
        found = JobsSeen(wanted={run.job_id for run in blocked})
        while page := await self._store.list_jobs(after=after, limit=MOST_LISTED):
            found.add(page)
            if len(found.ahead) < MOST_NAMED:
                found.ahead += await jobs_ahead(self._store, page, now)
            after = page[-1].id
            if self._clock.monotonic() - began > LONGEST:
                found.more = bool(await self._store.list_jobs(after=after, limit=1))
                break
        return found

    async def _once(self, jobs: JobsSeen) -> DoctorReading:
        sent, machine_now = self._clock.monotonic(), self._clock.now()
        now = await self._store.now()
        took = self._clock.monotonic() - sent
        schema, promises = await self._store.schema(), tuple(self._store.faults())
        reading = DoctorReading(now=now, machine_now=machine_now, took=took, schema=schema, promises=promises)
        return await self._whole(reading, jobs) if usable(reading) else reading

    async def _whole(self, bare: DoctorReading, jobs: JobsSeen) -> DoctorReading:
        store, now = self._store, bare.now
        running = await self._runs(RunState.RUNNING)
        semaphores, programs, fault = await self._semaphores()
        return DoctorReading(
            now=now,
            machine_now=bare.machine_now,
            took=bare.took,
            schema=bare.schema,
            promises=bare.promises,
            nodes=tuple(await store.list_nodes()),
            due=tuple(each.job for each in await store.due(Moment(now - LATE), MOST_DUE)),
            running=running,
            blocked=await self._runs(RunState.BLOCKED),
            held=await self._runs(RunState.HELD),
            lively=await self._lively(running, semaphores),
            semaphores=semaphores,
            programs=programs,
            apart=self._apart,
            semaphores_fault=fault,
            lanes=(await store.survey(now)).lanes,
            jobs=jobs,
            lost_notifiers=await self._lost_notifiers(jobs),
            ahead=tuple(jobs.ahead),
            pauses=tuple(await store.list_pauses()),
            tokens=tuple(await self._tokens()),
            alarms=tuple(await self._alarms()),
        )

    async def _lost_notifiers(self, jobs: JobsSeen) -> frozenset[JobId]:
        """Return the notifiers that these jobs name and that were deleted."""
        lost = []
        for job_id in sorted(jobs.notifiers.keys() - jobs.known_notifiers)[:_MOST_ASKED]:
            try:
                await self._store.get_job(job_id)
            except NotFound:
                lost.append(job_id)
        return frozenset(lost)

    async def _runs(self, state: RunState, limit: int = MOST_RUNS) -> tuple[Run, ...]:
        return tuple(await self._store.list_runs(RunFilter(states=frozenset({state}), limit=limit, longest=0)))

    async def _semaphores(self) -> tuple[tuple[Semaphore, ...], tuple[NodeRecord, ...], str | None]:
        try:
            store = await self._opened()
            return tuple(await store.list_semaphores(limit=MOST_SEMAPHORES)), tuple(await store.list_nodes()), None
        except StoreError as fault:
            return (), (), str(fault)

    async def _lively(
        self, running: Sequence[Run], semaphores: Sequence[Semaphore], most: int = _MOST_ASKED
    ) -> frozenset[RunId]:
        """Return the running runs, and those holders of units that are too many to look up."""
        known = {run.id for run in running}
        holders = [each.run_id for semaphore in semaphores for each in semaphore.holders if each.run_id is not None]
        unknown = [run_id for run_id in holders if run_id not in known]
        for run_id in () if self._apart else unknown[:most]:
            with suppress(NotFound):
                if (await self._store.get_run(run_id)).state is RunState.RUNNING:
                    known.add(run_id)
        return frozenset(known | set(unknown[most:]))
