"""Thread that owns one connection and carries out requests in groups: one transaction for many callers."""

import asyncio
import fcntl
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from os.path import islink
from queue import SimpleQueue
from typing import Any, TypeVar

from msgspec import Struct

from tokimori.errors import StoreError, StoreReplaced, StoreUnavailable
from tokimori.ownership import open_private, still_private
from tokimori.stores.sqlite.connection import connect, file_at, real_path, stamp_of, store_error
from tokimori.stores.urls import UNNAMED, Namespace

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Lock = Callable[[], AbstractContextManager[None]]

GROUP_SECONDS = 0.05
"""Seconds after which a group takes no more requests, so that no answer waits for many others."""
_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the time: some tenths of a millisecond."""


class _Request(Struct):
    """Request: work, and its waiting caller. `first`: before the others of its group."""

    work: Work[Any]
    future: asyncio.Future[Any]
    first: bool = False
    result: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        """Pass the result to the caller, if it still waits."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class ConnectionThread:
    """Connection in a thread of its own. `begin` begins its transactions; `lock` is held meanwhile.

    With `longest`, only for reads, a request is broken off after so many seconds, or if its caller has gone. A write is
    a savepoint: its failure does not undo its group. Callers get their answers after the commit. After a
    `CancelledError` the work may be done or not: it may be requested again. `now` is `store_now()` in statements.
    """

    def __init__(
        self,
        path: str,
        *,
        begin: str,
        lock: Lock,
        namespace: Namespace = UNNAMED,
        longest: float = math.inf,
        now: Callable[[], int] = lambda: 0,
    ) -> None:
        self._path = path
        self._namespace = namespace
        self._begin = begin
        self._lock = lock
        self._longest = longest
        self._now = now
        self._reads = longest < math.inf
        self._log, self._left = f"{real_path(path)}-wal", object()
        self._under_way: _Request | None = None
        self._late = math.inf
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"tokimori-store-{begin.lower()}", daemon=True)
        self._closing = False
        self._opened = _Request(lambda _db: None, self._loop.create_future())
        self._closed = _Request(lambda _db: None, self._loop.create_future())

    async def open(self) -> None:
        """Connect. Raises `StoreError`."""
        self._thread.start()
        await self._opened.future

    async def close(self) -> None:
        """Carry out earlier requests, then disconnect."""
        self._queue.put(None)
        await self._closed.future
        self._thread.join()

    async def run(self, work: Work[T], *, first: bool = False) -> T:
        """Do the work in a transaction. Raises `StoreError`, and errors of the work."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Request(work, future, first))
        return await future

    def _run(self) -> None:
        try:
            with self._lock():
                db = connect(self._path, self._namespace)
            db.create_function("store_now", 0, self._now)
            place = file_at(self._path), islink(self._path)  # noqa: PTH114  as in `file_at`
            db.set_progress_handler(self._is_late if self._reads else None, _STEPS)
        except (sqlite3.Error, StoreError) as fault:
            self._opened.error = _as_store_error(fault, self._path)
            self._answer([self._opened, self._closed])
            return
        self._answer([self._opened])
        waiting: list[_Request] = []
        while self._fill(waiting):
            done, waiting = self._carry_out(db, place, waiting)
            self._answer(done)
        self._close(db)
        self._answer([self._closed])

    def _close(self, db: sqlite3.Connection) -> None:
        """Close the connection. The last one makes a checkpoint, under the lock; if that is held, this is not the
        last."""
        try:
            with self._lock():
                db.close()
        except StoreError:
            db.close()

    def _fill(self, waiting: list[_Request]) -> bool:
        """Take all requests that are there, and wait if there is none. Return False if the thread is to end."""
        while not self._closing and (not waiting or not self._queue.empty()):
            request = self._queue.get()
            if request is None:
                self._closing = True
            else:
                waiting.append(request)
        waiting.sort(key=lambda request: not request.first)
        return bool(waiting)

    def _carry_out(
        self, db: sqlite3.Connection, place: object, waiting: list[_Request]
    ) -> tuple[list[_Request], list[_Request]]:
        """Carry out requests in one transaction. Return those to answer now, and those left for the next one."""
        group: list[_Request] = []
        try:
            with self._lock():
                self._check_same(db, place)
                db.execute(self._begin)
                end = time.monotonic() + GROUP_SECONDS
                for request in waiting:
                    group.append(request)
                    self._do(db, request)
                    if time.monotonic() > end:
                        break
                db.execute("COMMIT")
                self._left = self._reads or stamp_of(self._log)
        except Exception as fault:  # any error must reach the waiting caller, and the thread must live on
            _roll_back(db)
            group = group or waiting
            for request in group:
                request.error = _as_store_error(fault, self._path)
        return group, waiting[len(group) :]

    def _check_same(self, db: sqlite3.Connection, opened: object) -> None:
        """Raise `StoreReplaced` if another file is at the path than the one that is open.

        First put the log into the open file, unless others have written since. Without the log that file lacks content,
        and a new file at the path would be damaged by it.
        """
        if (file_at(path := self._path), islink(path)) == opened:  # noqa: PTH114  beside a link's target is another log
            return
        if stamp_of(self._log) == self._left:  # else another program has written since, perhaps to the new file
            with suppress(sqlite3.Error):
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raise StoreReplaced(f"store {path} was moved, removed or replaced while it was in use: put it back, or restart")

    def _do(self, db: sqlite3.Connection, request: _Request) -> None:
        """Do the work of a request, a write within a savepoint. Raise only an error that has ended the transaction."""
        if self._reads:
            if request.future.done():
                return
            self._under_way, self._late = request, time.monotonic() + self._longest
        else:
            db.execute("SAVEPOINT request")
        try:
            request.result = request.work(db)
        except Exception as fault:
            if not db.in_transaction:
                raise
            request.error = _as_store_error(fault, self._path)
            if not self._reads:
                db.execute("ROLLBACK TO request")
        finally:
            self._under_way = None
        if not self._reads:
            db.execute("RELEASE request")

    def _is_late(self) -> bool:
        """Return if the request is late. SQLite calls it at intervals of steps, counted through all uses of a
        statement."""
        request = self._under_way
        return request is not None and (request.future.done() or time.monotonic() > self._late)

    def _answer(self, requests: Sequence[_Request]) -> None:
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            self._loop.call_soon_threadsafe(_answer_all, requests)


def _roll_back(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # it had not begun, or SQLite has undone it already
        db.execute("ROLLBACK")


def _as_store_error(fault: Exception, path: str) -> Exception:
    return store_error(fault, path) if isinstance(fault, sqlite3.Error) else fault


def _answer_all(requests: Sequence[_Request]) -> None:
    for request in requests:
        request.answer()


PATIENCE = 3.0
"""Seconds to wait for another process's transaction: less than a lease, so that a node learns of it in time."""
TURN = 0.5
"""Seconds to wait for the turn: a process frozen with it delays others no longer than that, and once."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005


class FileLock:
    """An flock beside the database, for one transaction or checkpoint at a time; freed when its process dies.

    SQLite's own write lock lets a checkpoint run beside a commit, by which versions below 3.51.3 can damage the file
    (the WAL-reset bug); under this lock they never meet. It is taken by trying, because a blocking flock can't time
    out. Only the holder of the turn, a lock of another file, tries: else one that writes without a break would be first
    again and again.
    """

    def __init__(self, database: str) -> None:
        self._lock, self._turn = _PrivateLock(f"{database}-lock", database), _PrivateLock(f"{database}-turn", database)
        self._patience = TURN

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises `StoreUnavailable` after `PATIENCE`."""
        has_turn = self._turn.takes(self._patience, _LONGEST_PAUSE)
        self._patience = TURN if has_turn else 0
        try:
            is_held = self._lock.takes(PATIENCE, _FIRST_PAUSE if has_turn else _LONGEST_PAUSE)
        finally:
            if has_turn:
                self._turn.free()
        if not is_held:
            raise StoreUnavailable(
                f"another process has been writing to the store for over {PATIENCE:g} s ({self._lock.path} is locked);"
                " if it is stopped, let it go on or end it"
            )
        try:
            yield
        finally:
            self._lock.free()

    def close(self) -> None:
        """Free the descriptors."""
        self._lock.close()
        self._turn.close()


class _PrivateLock:
    """An flock of a file that only the owner of the database can open."""

    def __init__(self, path: str, database: str) -> None:
        self.path, self._database = path, database
        self._descriptor = open_private(path, like=database)

    def takes(self, patience: float, longest: float) -> bool:
        """Take the lock within so many seconds, trying every `longest` seconds; return whether it was free."""
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held, self._descriptor = self._descriptor, still_private(self._descriptor, self.path, self._database)
                if held == self._descriptor:
                    return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
            except OSError as fault:  # of a file system over the network: no locks to be had, a stale handle
                raise StoreUnavailable(f"store: {self.path} can't be locked ({fault.strerror})") from None
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def free(self) -> None:
        """Free the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self._descriptor)
