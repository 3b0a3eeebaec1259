"""The memory store: each method yields to other tasks once, then does its work without waiting."""

import asyncio
from collections.abc import Callable, Sequence

from tokimori.clock import Clock, Moment
from tokimori.model.calendar import Calendar
from tokimori.model.decide import Due, Plan
from tokimori.model.ids import Incarnation, JobId, NodeId, PermitId, RunId
from tokimori.model.job import Job
from tokimori.model.pause import Pause
from tokimori.model.request import PLAIN, Manner
from tokimori.model.retention import DailyCount, Expiry
from tokimori.model.run import Attempt, Output, Run, Skip
from tokimori.ports.copying import Copied, Key, Kind
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.planning import ALL, Share
from tokimori.ports.semaphores import Answer, Semaphore, Wish
from tokimori.ports.store import Family, RunFilter, SchemaStatus
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.memory import calendars, copying, jobs, nodes, pauses, planning, pruning, runs, semaphores, working
from tokimori.stores.memory.tables import Tables
from tokimori.stores.migrations import no_script


class MemoryStore:
    """A `Store` whose contents end with this object. `clock` is the store's own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables()
        self._watchers: list[Callable[[], None]] = []

    async def _turn(self) -> Tables:
        await asyncio.sleep(0)
        return self._tables

    def _tell(self) -> None:
        for wake in self._watchers:
            asyncio.get_running_loop().call_soon(wake)

    async def open(self) -> None:
        """See `Schema.open`."""

    async def close(self) -> None:
        """See `Schema.close`."""
        self._watchers.clear()

    async def schema(self) -> SchemaStatus:
        """See `Schema.schema`."""
        return SchemaStatus(version=1, newest=1, pending=(), oldest=1)

    async def migrate(self) -> SchemaStatus:
        """See `Schema.migrate`."""
        return await self.schema()

    async def script(self, *, whole: bool) -> str:
        """See `Schema.script`."""
        raise no_script("memory")

    async def differences(self) -> list[str]:
        """See `Schema.differences`."""
        raise no_script("memory")

    def faults(self) -> Sequence[str]:
        """See `Schema.faults`."""
        return ("memory: jobs and runs end with this process",)

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`."""
        self._watchers.append(wake)

    async def add_jobs(self, jobs_: Sequence[Job], family: int | None = None) -> None:
        """See `Jobs.add_jobs`."""
        jobs.add_jobs(await self._turn(), jobs_, family)
        self._tell()

    async def family(self) -> Family:
        """See `Jobs.family`."""
        return jobs.family(await self._turn())

    async def get_job(self, job_id: JobId) -> Job:
        """See `Jobs.get_job`."""
        return (await self._turn()).job(job_id)

    async def list_jobs(self, *, after: JobId | None = None, limit: int = 1000, idle: bool = False) -> list[Job]:
        """See `Jobs.list_jobs`."""
        return jobs.list_jobs(await self._turn(), after, limit, idle=idle)

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        """See `Jobs.replace_job`."""
        jobs.replace_job(await self._turn(), old, new, skips, family)
        self._tell()

    async def delete_job(self, job_id: JobId, now: Moment) -> None:
        """See `Jobs.delete_job`."""
        jobs.delete_job(await self._turn(), job_id, now)
        self._tell()

    async def deleted_job(self, job_id: JobId) -> Job:
        """See `Jobs.deleted_job`."""
        return jobs.deleted_job(await self._turn(), job_id)

    async def get_due(self, job_id: JobId) -> Due:
        """See `Jobs.get_due`."""
        tables = await self._turn()
        return jobs.due_of(tables, tables.job(job_id))

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        """See `Jobs.skips`."""
        return jobs.list_skips(await self._turn(), job_id, limit)

    async def put_calendar(self, calendar: Calendar) -> None:
        """See `Calendars.put_calendar`."""
        calendars.put_calendar(await self._turn(), calendar)

    async def get_calendar(self, name: str) -> Calendar:
        """See `Calendars.get_calendar`."""
        return calendars.get_calendar(await self._turn(), name)

    async def list_calendars(self) -> list[Calendar]:
        """See `Calendars.list_calendars`."""
        return calendars.list_calendars(await self._turn())

    async def delete_calendar(self, name: str) -> None:
        """See `Calendars.delete_calendar`."""
        calendars.delete_calendar(await self._turn(), name)

    async def add_pause(self, pause: Pause) -> Pause:
        """See `Pausing.add_pause`."""
        return pauses.add_pause(await self._turn(), pause)

    async def delete_pause(self, queue: str) -> None:
        """See `Pausing.delete_pause`."""
        pauses.delete_pause(await self._turn(), queue)
        self._tell()

    async def list_pauses(self) -> list[Pause]:
        """See `Pausing.list_pauses`."""
        return pauses.list_pauses(await self._turn())

    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        """See `Runs.add_run`."""
        added = runs.add_run(await self._turn(), run, now, manner)
        self._tell()
        return added

    async def get_run(self, run_id: RunId) -> Run:
        """See `Runs.get_run`."""
        return (await self._turn()).row(run_id).run

    async def list_runs(self, wanted: RunFilter) -> list[Run]:
        """See `Runs.list_runs`."""
        return runs.list_runs(await self._turn(), wanted)

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        """See `Runs.attempts`."""
        return runs.attempts(await self._turn(), run_id)

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        """See `Runs.output`."""
        return runs.output(await self._turn(), run_id, attempt)

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment) -> Run:
        """See `Runs.cancel_run`."""
        run = runs.cancel_run(await self._turn(), run_id, reason, now)
        self._tell()
        return run

    async def hold_run(self, run_id: RunId, reason: str) -> Run:
        """See `Runs.hold_run`."""
        run = runs.hold_run(await self._turn(), run_id, reason)
        self._tell()
        return run

    async def resume_run(self, run_id: RunId) -> Run:
        """See `Runs.resume_run`."""
        run = runs.resume_run(await self._turn(), run_id)
        self._tell()
        return run

    async def due(self, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        """See `Planning.due`."""
        return planning.due(await self._turn(), now, limit, share)

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """See `Planning.apply`."""
        return planning.apply(await self._turn(), plans, now)

    async def outdated(self, tzdata: str, limit: int) -> list[Job]:
        """See `Planning.outdated`."""
        return planning.outdated(await self._turn(), tzdata, limit)

    async def promote(self, now: Moment, limit: int) -> int:
        """See `Planning.promote`."""
        return planning.promote(await self._turn(), now, limit)

    async def register(self, node: NodeRecord) -> None:
        """See `Nodes.register`."""
        nodes.register(await self._turn(), node)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `Nodes.tick`."""
        return nodes.tick(await self._turn(), beat, self._clock.now())

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`."""
        return nodes.survey(await self._turn(), past)

    async def bury(self, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
        """See `Nodes.bury`."""
        return nodes.bury(await self._turn(), dead, beat, by, now)

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """See `Nodes.leave`."""
        return nodes.leave(await self._turn(), node, now)

    async def orphans(self, limit: int) -> list[Claimed]:
        """See `Nodes.orphans`."""
        return nodes.orphans(await self._turn(), limit)

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """See `Nodes.list_nodes`."""
        return nodes.list_nodes(await self._turn(), limit)

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`."""
        return working.claim(await self._turn(), claim, now)

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        return working.settle(await self._turn(), changes, by)

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """See `Working.save_outputs`."""
        working.save_outputs(await self._turn(), outputs)

    async def put_semaphore(self, name: str, limit: int, now: Moment) -> None:
        """See `Semaphores.put_semaphore`."""
        semaphores.put_semaphore(await self._turn(), name, limit)
        self._tell()

    async def list_semaphores(self, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
        """See `Semaphores.list_semaphores`."""
        return semaphores.list_semaphores(await self._turn(), after, limit)

    async def get_semaphore(self, name: str) -> Semaphore:
        """See `Semaphores.get_semaphore`."""
        return semaphores.get_semaphore(await self._turn(), name)

    async def delete_semaphore(self, name: str) -> None:
        """See `Semaphores.delete_semaphore`."""
        semaphores.delete_semaphore(await self._turn(), name)

    async def acquire(self, wish: Wish, now: Moment) -> Answer:
        """See `Semaphores.acquire`."""
        return semaphores.acquire(await self._turn(), wish, now)

    async def release(self, permit: PermitId, node: NodeId, now: Moment) -> bool:
        """See `Semaphores.release`."""
        held = semaphores.release(await self._turn(), permit, node)
        self._tell()
        return held

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        """See `Copying.export_rows`."""
        return copying.export_rows(await self._turn(), kind, after, limit)

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        """See `Copying.import_rows`."""
        copying.import_rows(await self._turn(), rows)

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> int:
        """See `Pruning.prune`."""
        return pruning.prune(await self._turn(), expiries, limit)

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        """See `Pruning.deleted_jobs`."""
        return pruning.deleted_jobs(await self._turn(), after, limit)

    async def prune_nodes(self, before: Moment, limit: int) -> int:
        """See `Pruning.prune_nodes`."""
        return pruning.prune_nodes(await self._turn(), before, limit)

    async def counts(self, job_id: JobId) -> list[DailyCount]:
        """See `Pruning.counts`."""
        return pruning.counts(await self._turn(), job_id)
