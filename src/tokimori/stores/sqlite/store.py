"""The SQLite store: a writing and a reading connection, each with its thread."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Concatenate, ParamSpec

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
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
from tokimori.stores.namespace import UNNAMED, Namespace
from tokimori.stores.sqlite import (
    calendars,
    connection,
    copying,
    family,
    jobs,
    nodes,
    pauses,
    planning,
    pruning,
    runs,
    schema,
    semaphores,
    working,
)
from tokimori.stores.sqlite.connection_thread import ConnectionThread, T
from tokimori.stores.sqlite.file_lock import FileLock
from tokimori.stores.sqlite.watch import FileWatch

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class _Connections:
    """What an open store holds."""

    writer: ConnectionThread
    reader: ConnectionThread


class SqliteStore:
    """A `Store` in the file at `path` (absolute). `clock` is this machine's, and with it the store's own.

    Belongs to the event loop that opened it. Not for files on a network: SQLite's locks don't hold there.
    """

    def __init__(self, path: str, clock: Clock, namespace: Namespace = UNNAMED) -> None:
        self._path = path
        self._namespace = namespace
        self._clock = clock
        self._known = schema.known_migrations()
        self._connections: _Connections | None = None
        self._watchers: list[Callable[[], None]] = []
        self._watch: FileWatch | None = None
        self._closing = AsyncExitStack()

    async def open(self) -> None:
        """See `Schema.open`. Makes the file, not its directory. Raises `StoreError` for the file of another program."""
        connection.check_free(self._path)
        lock = FileLock(f"{connection.real_path(self._path)}-lock")
        writer = ConnectionThread(self._path, begin="BEGIN IMMEDIATE", lock=lock.held, namespace=self._namespace)
        reader = ConnectionThread(self._path, begin="BEGIN", lock=nullcontext, namespace=self._namespace)
        async with AsyncExitStack() as stack:
            stack.callback(lock.close)
            await writer.open()
            stack.push_async_callback(writer.close)
            await reader.open()
            stack.push_async_callback(reader.close)
            self._closing = stack.pop_all()
        self._connections = _Connections(writer, reader)

    async def close(self) -> None:
        """See `Schema.close`. The writer goes last: whoever leaves a file last makes a checkpoint, under the lock."""
        if self._watch is not None:
            await self._watch.stop()
        self._watch = self._connections = None
        await self._closing.aclose()

    @property
    def _open(self) -> _Connections:
        if self._connections is None:
            raise StoreError(f"store {self._path} is not open")
        return self._connections

    async def _read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._open.reader.run(lambda db: work(db, *args, **kwargs))

    async def _write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._open.writer.run(lambda db: work(db, *args, **kwargs))

    async def schema(self) -> SchemaStatus:
        """See `Schema.schema`."""
        return await self._read(schema.status, self._known)

    async def migrate(self) -> SchemaStatus:
        """See `Schema.migrate`."""
        return await self._write(schema.migrate, self._known, self._clock.now())

    async def script(self, *, whole: bool) -> str:
        """See `Schema.script`."""
        text = await self._read(schema.script, self._known, self._clock.now(), whole=whole)
        return self._namespace.rendered(text)

    async def differences(self) -> list[str]:
        """See `Schema.differences`."""
        return await self._read(schema.check, self._known)

    def faults(self) -> Sequence[str]:
        """See `Schema.faults`."""
        return connection.faults()

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`. What this object's own callers ask of jobs and runs wakes at once."""
        self._watchers.append(wake)
        if self._watch is None:
            self._watch = FileWatch(connection.real_path(self._path), self._open.writer, self._tell)

    def _tell(self) -> None:
        for wake in self._watchers:
            wake()

    async def add_jobs(self, jobs_: Sequence[Job], family: int | None = None) -> None:
        """See `Jobs.add_jobs`."""
        await self._write(jobs.add_jobs, jobs_, family)
        self._tell()

    async def family(self) -> Family:
        """See `Jobs.family`."""
        return await self._read(family.family)

    async def get_job(self, job_id: JobId) -> Job:
        """See `Jobs.get_job`."""
        return await self._read(jobs.get_job, job_id)

    async def list_jobs(self, *, after: JobId | None = None, limit: int = 1000, idle: bool = False) -> list[Job]:
        """See `Jobs.list_jobs`."""
        return await self._read(jobs.list_jobs, after, limit, idle=idle)

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        """See `Jobs.replace_job`."""
        await self._write(jobs.replace_job, old, new, skips, family)
        self._tell()

    async def delete_job(self, job_id: JobId, now: Moment) -> None:
        """See `Jobs.delete_job`."""
        await self._write(jobs.delete_job, job_id, now)
        self._tell()

    async def deleted_job(self, job_id: JobId) -> Job:
        """See `Jobs.deleted_job`."""
        return await self._read(jobs.deleted_job, job_id)

    async def get_due(self, job_id: JobId) -> Due:
        """See `Jobs.get_due`."""
        return await self._read(jobs.get_due, job_id)

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        """See `Jobs.skips`."""
        return await self._read(jobs.list_skips, job_id, limit)

    async def put_calendar(self, calendar: Calendar) -> None:
        """See `Calendars.put_calendar`."""
        await self._write(calendars.put_calendar, calendar)

    async def get_calendar(self, name: str) -> Calendar:
        """See `Calendars.get_calendar`."""
        return await self._read(calendars.get_calendar, name)

    async def list_calendars(self) -> list[Calendar]:
        """See `Calendars.list_calendars`."""
        return await self._read(calendars.list_calendars)

    async def delete_calendar(self, name: str) -> None:
        """See `Calendars.delete_calendar`."""
        await self._write(calendars.delete_calendar, name)

    async def add_pause(self, pause: Pause) -> Pause:
        """See `Pausing.add_pause`."""
        return await self._write(pauses.add_pause, pause)

    async def delete_pause(self, queue: str) -> None:
        """See `Pausing.delete_pause`."""
        await self._write(pauses.delete_pause, queue)
        self._tell()

    async def list_pauses(self) -> list[Pause]:
        """See `Pausing.list_pauses`."""
        return await self._read(pauses.list_pauses)

    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        """See `Runs.add_run`."""
        run = await self._write(runs.add_run, run, now, manner)
        self._tell()
        return run

    async def get_run(self, run_id: RunId) -> Run:
        """See `Runs.get_run`."""
        return await self._read(runs.get_run, run_id)

    async def list_runs(self, wanted: RunFilter) -> list[Run]:
        """See `Runs.list_runs`."""
        return await self._read(runs.list_runs, wanted)

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        """See `Runs.attempts`."""
        return await self._read(runs.attempts, run_id)

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        """See `Runs.output`."""
        return await self._read(runs.output, run_id, attempt)

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment) -> Run:
        """See `Runs.cancel_run`."""
        run = await self._write(runs.cancel_run, run_id, reason, now)
        self._tell()
        return run

    async def hold_run(self, run_id: RunId, reason: str) -> Run:
        """See `Runs.hold_run`."""
        run = await self._write(runs.hold_run, run_id, reason)
        self._tell()
        return run

    async def resume_run(self, run_id: RunId) -> Run:
        """See `Runs.resume_run`."""
        run = await self._write(runs.resume_run, run_id)
        self._tell()
        return run

    async def due(self, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        """See `Planning.due`."""
        return await self._read(planning.due, now, limit, share)

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """See `Planning.apply`."""
        return await self._write(planning.apply, plans, now)

    async def outdated(self, tzdata: str, limit: int) -> list[Job]:
        """See `Planning.outdated`."""
        return await self._read(planning.outdated, tzdata, limit)

    async def promote(self, now: Moment, limit: int) -> int:
        """See `Planning.promote`."""
        return await self._write(planning.promote, now, limit)

    async def register(self, node: NodeRecord) -> None:
        """See `Nodes.register`."""
        await self._write(nodes.register, node)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `Nodes.tick`."""
        store_now = self._clock.now()
        return await self._open.writer.run(lambda db: nodes.tick(db, beat, store_now), first=True)

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`."""
        return await self._read(nodes.survey, past)

    async def bury(self, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
        """See `Nodes.bury`."""
        return await self._write(nodes.bury, dead, beat, by, now)

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """See `Nodes.leave`."""
        return await self._write(nodes.leave, node, now)

    async def orphans(self, limit: int) -> list[Claimed]:
        """See `Nodes.orphans`."""
        return await self._read(nodes.orphans, limit)

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """See `Nodes.list_nodes`."""
        return await self._read(nodes.list_nodes, limit)

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`."""
        return await self._write(working.claim, claim, now)

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        return await self._write(working.settle, changes, by)

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """See `Working.save_outputs`."""
        await self._write(working.save_outputs, outputs)

    async def put_semaphore(self, name: str, limit: int, now: Moment) -> None:
        """See `Semaphores.put_semaphore`."""
        await self._write(semaphores.put_semaphore, name, limit)
        self._tell()

    async def list_semaphores(self, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
        """See `Semaphores.list_semaphores`."""
        return await self._read(semaphores.list_semaphores, after, limit)

    async def get_semaphore(self, name: str) -> Semaphore:
        """See `Semaphores.get_semaphore`."""
        return await self._read(semaphores.get_semaphore, name)

    async def delete_semaphore(self, name: str) -> None:
        """See `Semaphores.delete_semaphore`."""
        await self._write(semaphores.delete_semaphore, name)

    async def acquire(self, wish: Wish, now: Moment) -> Answer:
        """See `Semaphores.acquire`."""
        return await self._write(semaphores.acquire, wish, now)

    async def release(self, permit: PermitId, node: NodeId, now: Moment) -> bool:
        """See `Semaphores.release`."""
        held = await self._write(semaphores.release, permit, node)
        self._tell()
        return held

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        """See `Copying.export_rows`."""
        return await self._read(copying.export_rows, kind, after, limit)

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        """See `Copying.import_rows`."""
        await self._write(copying.import_rows, kind, rows)

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> int:
        """See `Pruning.prune`."""
        return await self._write(pruning.prune, expiries, limit)

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        """See `Pruning.deleted_jobs`."""
        return await self._read(pruning.deleted_jobs, after, limit)

    async def prune_nodes(self, before: Moment, limit: int) -> int:
        """See `Pruning.prune_nodes`."""
        return await self._write(pruning.prune_nodes, before, limit)

    async def counts(self, job_id: JobId) -> list[DailyCount]:
        """See `Pruning.counts`."""
        return await self._read(pruning.counts, job_id)
