"""The SQLite store: a writing and a reading connection, each with its thread, and one for doors."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, nullcontext
from copy import copy
from functools import wraps
from itertools import count
from sqlite3 import Connection, Error, connect
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
from tokimori.model.document import Document
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job
from tokimori.model.run import Skip
from tokimori.ownership import keep_private
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import Outside, SchemaStatus
from tokimori.ports.working import Claim, Claimed
from tokimori.stores.notices import Guarded, with_notice
from tokimori.stores.reading import HELD, TableReader
from tokimori.stores.rows import BIRTH, OUTSIDE_ADD, OUTSIDE_KNOWN, Row, marks
from tokimori.stores.rules.lines import MOST_STEPS, StillMoving
from tokimori.stores.sqlite import connection as file
from tokimori.stores.sqlite import connection as tables
from tokimori.stores.sqlite import jobs, lines, moves, nodes, runs, semaphores, working
from tokimori.stores.sqlite.connection_thread import ConnectionThread, FileLock, T
from tokimori.stores.sqlite.family import whole_family
from tokimori.stores.sqlite.watch import FileWatch
from tokimori.stores.urls import UNNAMED, Namespace

P = ParamSpec("P")
LONGEST_READ = 3.0
"""Seconds after which a read is broken off, as by the servers of other stores."""


class _Connections(NamedTuple):
    """Connections of an open store."""

    writer: ConnectionThread
    reader: ConnectionThread
    looks: Connection


def reading(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]:
    """Return the method that does this work on the reading connection."""

    @wraps(work)
    async def method(store: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._read(work, *args, **kwargs)

    return method


def writing(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]:
    """Return the method that does this work on the writing connection."""

    @wraps(work)
    async def method(store: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._write(work, *args, **kwargs)

    return method


def _holds(db: Connection) -> Callable[[Document], object]:
    return lambda each: db.execute(HELD % (("?",) * 3), (each.kind, each.name, each.version)).fetchone()


class SqliteStore(Guarded, TableReader):
    """A `Store` in the file at `path` (absolute). `clock` is this machine's, and with it the store's own.

    Belongs to the event loop that opened it. Not for files on a network: SQLite's locks don't hold there.
    """

    _due, _scanned_id = jobs.DUE, "+id"  # the whole table is read faster than by an index

    def __init__(self, path: str, clock: Clock, namespace: Namespace = UNNAMED) -> None:
        self._path = path
        self._namespace = namespace
        self._clock = clock
        self._known = tables.known_migrations()
        self._connections: _Connections | None = None
        self._watchers: list[Callable[[], None]] = []
        self._watch: FileWatch | None = None
        self._closing = AsyncExitStack()

    async def open(self) -> None:
        """See `Schema.open`. It makes the file, not its folder. Raises `StoreError` for the file of another program."""
        file.check_free(self._path)
        keep_private(file.real_path(self._path), "-wal", "-shm", "-journal")
        lock = FileLock(file.real_path(self._path))
        ours, now = self._namespace, self._clock.now
        writer = ConnectionThread(self._path, begin="BEGIN IMMEDIATE", lock=lock.held, namespace=ours, now=now)
        async with AsyncExitStack() as stack:
            stack.callback(lock.close)
            await writer.open()
            stack.push_async_callback(writer.close)
            watching = stack.enter_context(closing(connect(self._path, timeout=0)))
            self._connections = _Connections(writer, await self._reader(stack), watching)
            self._closing = stack.pop_all()

    async def _reader(self, stack: AsyncExitStack) -> ConnectionThread:
        """Open a connection for reading, and return it. It is closed with the stack."""
        reader = ConnectionThread(
            self._path,
            begin="BEGIN",
            lock=nullcontext,
            namespace=self._namespace,
            longest=LONGEST_READ,
            now=self._clock.now,
        )
        await reader.open()
        stack.push_async_callback(reader.close)
        return reader

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def for_doors(self) -> Self:
        doors = copy(self)
        doors._connections = self._open._replace(reader=await self._reader(self._closing))
        return doors

    def mark(self) -> object:
        """Return SQLite's version of the data, from shared memory, and the identity of the file at the path."""
        try:
            return file.file_at(self._path), self._open.looks.execute("PRAGMA data_version").fetchone()
        except Error:
            return None

    async def close(self) -> None:
        """See `Schema.close`. The writer closes last, as the last connection makes a checkpoint, under the lock."""
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

    async def _select(self, statement: str, *values: object) -> Sequence[Row]:
        return await self._read(lambda db: db.execute(statement % (("?",) * len(values)), values).fetchall())

    async def _change(self, statement: str, *values: object) -> int:
        return await self._write(lambda db: db.execute(statement % (("?",) * len(values)), values).rowcount)

    async def _write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def guarded(db: Connection) -> T:
            self.check(_holds(db))
            return work(db, *args, **kwargs)

        while True:
            try:
                return await self._open.writer.run(guarded)
            except StillMoving as moving:
                await self._move_runs(moving.incarnation, count())

    async def _move_runs(self, job: Incarnation, steps: Iterable[int]) -> None:
        """Move the runs of a changed job, some with each step. Others write between steps, and ticks move the rest."""
        for _ in steps:
            if await self._write(moves.move_runs, job):
                return

    async def finish_moves(self) -> None:
        while (job := await self._read(moves.some_move)) is not None:
            await self._move_runs(job, count())

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        await self._write(jobs.replace_job, old, new, skips, family)
        await self._move_runs(old.incarnation, range(MOST_STEPS))
        self.send_notice()

    async def delete_job(self, job_id: JobId, now: Moment, known: Job | None = None) -> None:
        await self._move_runs(await self._write(jobs.delete_job, job_id, now, known), range(MOST_STEPS))
        self.send_notice()

    async def schema(self) -> SchemaStatus:
        return await self._read(tables.status, self._known)

    async def migrate(self) -> SchemaStatus:
        return await self._write(tables.migrate, self._known, self._clock.now())

    async def script(self, *, whole: bool) -> str:
        text = await self._read(tables.script, self._known, self._clock.now(), whole=whole)
        return self._namespace.rendered(text)

    async def differences(self) -> list[str]:
        return await self._read(tables.check, self._known)

    def faults(self) -> Sequence[str]:
        return file.faults()

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`. Changes by this object's own callers wake at once."""
        self._watchers.append(wake)
        if self._watch is None:
            self._watch = FileWatch(file.real_path(self._path), self._open.writer, self.send_notice)

    def send_notice(self) -> None:
        """Wake the watchers."""
        for wake in self._watchers:
            wake()

    async def outside(self) -> Outside:
        await self._read(lambda db: self.check(_holds(db)))
        named, here = self._namespace.rendered, (file.file_at(self._path),)
        add, known = named(OUTSIDE_ADD.format(marks(BIRTH))), named(OUTSIDE_KNOWN)
        return Outside(driver="sqlite", where="PRAGMA database_list", here=here, add=add, known=known)

    add_jobs, family, orphans = with_notice(writing(jobs.add_jobs)), reading(whole_family), reading(nodes.orphans)
    add_pause, promote, add_run = writing(lines.add_pause), writing(jobs.promote), with_notice(writing(runs.add_run))
    add_runs = with_notice(writing(runs.add_runs))
    list_runs, last_runs, runs_of = reading(runs.list_runs), reading(runs.last_runs), reading(runs.runs_of)
    _cancel_run, _leave_line = writing(runs.cancel_run), writing(runs.leave_line)
    due, apply, outdated = reading(jobs.due), writing(jobs.apply), reading(jobs.outdated)
    register = writing(nodes.register)

    async def now(self) -> Moment:
        return self._clock.now()

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        store_now = self._clock.now()
        return await self._open.writer.run(lambda db: nodes.tick(db, beat, store_now), first=True)

    survey, bury, leave = reading(nodes.survey), writing(nodes.bury), writing(nodes.leave)

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        claimed, has_rest = await self._write(working.claim, claim, now)
        if has_rest:
            self.send_notice()
        return claimed

    settle, save_outputs = writing(working.settle), writing(working.save_outputs)
    put_semaphore = with_notice(writing(semaphores.put_semaphore))
    list_semaphores, get_semaphore = reading(semaphores.list_semaphores), reading(semaphores.get_semaphore)
    delete_semaphore, acquire = writing(semaphores.delete_semaphore), writing(semaphores.acquire)
    release, import_rows = with_notice(writing(semaphores.release)), writing(runs.import_rows)
    prune, prune_nodes = writing(runs.prune), writing(runs.prune_nodes)
