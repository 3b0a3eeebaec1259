"""A keeper at its post, from before its start to its end, the attempts that it was given, and their old output."""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from tokimori.clock import SECOND, Moment
from tokimori.errors import Refused
from tokimori.executors.exchange import Exchange
from tokimori.executors.keeper import wire
from tokimori.executors.keeper.kernel import boottime, waits_for_disk
from tokimori.executors.keeper_process import KeeperProcess, KeeperSettings
from tokimori.model.retention import first_id_at
from tokimori.model.suspicion import ALIVE_AND_WELL, COMMON, pause_after
from tokimori.ports.executor import AttemptTask, StopReason

log = logging.getLogger(__name__)

_PAUSE = 1.0
"""Seconds before another keeper is tried if one did not start."""
_MOST_TRIES = 9
"""Number of tries of a burial: a node that stops waits for it."""
TOLD_AFTER, ENDED_AFTER = 5.0, 30.0
"""Seconds without an answer until it is logged, and until a keeper is killed: no end, time-out or order passes one
that stands still.
"""
DISK_AFTER = 600.0
"""Seconds instead of `ENDED_AFTER` while it waits for a disk or a file server: what it runs is well, and the next one
would wait there, too.
"""


class CommandAttempt:
    """An attempt that has not ended. `reason` is the first for which it was stopped.

    `began` is kept as seconds since boot: the wall clock may be set while it runs.
    """

    __slots__ = ("began", "exchange", "pid", "reason", "task")

    def __init__(self, task: AttemptTask, exchange: Exchange | None = None) -> None:
        self.task = task
        self.exchange = exchange
        self.began: float | None = None
        self.pid: int | None = None
        self.reason: StopReason | None = None


class KeeperPost:
    """One keeper, which serves the jobs of one cell. Orders before its start wait for it.

    `receive` gets its notices; `died` is called once if it dies unexpectedly, and then another post takes its place.
    """

    def __init__(
        self,
        settings: KeeperSettings,
        cell: int,
        receive: "Callable[[KeeperPost, wire.Notice], None]",
        died: "Callable[[KeeperPost], None]",
    ) -> None:
        self.cell = cell
        self.attempts: dict[int, CommandAttempt] = {}
        self.since = boottime()
        self._settings = settings
        self._pass_on = partial(receive, self)
        self._died = died
        self._keeper: KeeperProcess | None = None
        self._starting: asyncio.Task[None] | None = None
        self._unsent: list[wire.Order] = []
        self._lease: wire.Lease | None = None
        self._closing = False
        self._is_silent = False

    async def open(self) -> None:
        """Start the keeper, which first ends what dead keepers have left. Raises `Refused` if it does not start."""
        self._keeper = await KeeperProcess.start(self._settings, self._pass_on, self._lost)
        self.since = boottime()
        orders, self._unsent = self._unsent, []
        if orders:
            self._keeper.send(orders if self._lease is None else [self._lease, *orders])

    def open_later(self, pause: float, after: asyncio.Future[None] | None = None) -> None:
        """Start the keeper `pause` seconds after `after` is done, and try again until it starts."""
        self._starting = asyncio.get_running_loop().create_task(self._open_later(pause, after))

    async def _open_later(self, pause: float, after: asyncio.Future[None] | None) -> None:
        if after is not None:
            await asyncio.wait([after])  # however it ends
        await asyncio.sleep(pause)
        while True:
            try:
                return await self.open()
            except (Refused, OSError, RuntimeError) as fault:  # this machine may lack files or threads for a while
                log.warning("a keeper does not start, and is tried again: %s", fault)
                await asyncio.sleep(_PAUSE)

    def send(self, orders: Sequence[wire.Order], lease: wire.Lease | None) -> None:
        """Send orders, and before them the lease if it is new to the keeper."""
        news = [] if lease is None or lease is self._lease else [lease]
        self._lease = lease
        if self._keeper is None:
            self._unsent += orders
        elif news or orders:
            self._keeper.send([*news, *orders])
            if news:
                self._look_at(self._keeper)

    def _look_at(self, keeper: KeeperProcess) -> None:
        silence = keeper.silent_for()
        waits = silence >= TOLD_AFTER and waits_for_disk(keeper.pid)
        if silence >= TOLD_AFTER and not self._is_silent:
            jobs = sorted({attempt.task.job_id for attempt in self.attempts.values()})[:8]
            why = "waits for a disk or a file server" if waits else "is stopped, or hangs"
            log.warning("keeper %d does not answer: it %s; runs of %s", keeper.pid, why, ", ".join(jobs) or "functions")
        elif silence >= (DISK_AFTER if waits else ENDED_AFTER):
            log.error("keeper %d still does not answer: it is killed, with all that it runs", keeper.pid)
            keeper.kill()
        self._is_silent = silence >= TOLD_AFTER

    async def bury(self) -> tuple[int, int]:
        """End the processes that the dead keeper has left; return its pid and exit code, or minus its signal."""
        if self._keeper is None:
            raise Refused("this keeper has not started")
        for _ in range(_MOST_TRIES):
            try:
                return self._keeper.pid, await self._keeper.bury()
            except (OSError, RuntimeError) as fault:
                log.warning("processes of the dead keeper %d can't be ended; trying again: %s", self._keeper.pid, fault)
                await asyncio.sleep(_PAUSE)
        return self._keeper.pid, await self._keeper.bury()

    def close(self) -> Coroutine[None, None, None]:
        """Order the keeper to end all its processes and exit. It may die from the call on, before the first await."""
        self._closing = True
        return self._close()

    async def _close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._keeper is not None:
            await self._keeper.leave()

    def _lost(self) -> None:
        if self._keeper is not None and not self._closing:
            self._died(self)


class Background(set[asyncio.Task[None]]):
    """Tasks under way, each until it is done."""

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Begin this work as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        return task


class KeeperPosts(dict[int, KeeperPost]):
    """Posts by their cells. A dead keeper of `COMMON` is replaced, after a pause if keepers die in a row.

    `receive` gets the notices of all keepers. `died` gets a post whose keeper died, and returns its burial, which
    becomes one of `burials`.
    """

    def __init__(
        self,
        settings: KeeperSettings,
        receive: Callable[[KeeperPost, wire.Notice], None],
        died: Callable[[KeeperPost], Coroutine[None, None, None]],
        burials: Background,
    ) -> None:
        super().__init__()
        self._settings, self._pass_on, self._died, self._burials = settings, receive, died, burials
        self._deaths_in_a_row = 0

    def begin(self, cell: int) -> KeeperPost:
        """Return a new post for the cell, which is not open yet."""
        post = self[cell] = KeeperPost(self._settings, cell, self._pass_on, self._lost)
        return post

    def _lost(self, post: KeeperPost) -> None:
        del self[post.cell]
        burial = self._burials.begin(self._died(post))
        if post.cell == COMMON:
            in_a_row = boottime() - post.since < ALIVE_AND_WELL
            self._deaths_in_a_row = self._deaths_in_a_row + 1 if in_a_row else 1
            self.begin(COMMON).open_later(pause_after(self._deaths_in_a_row), burial)


MOST = 1000
"""How many runs' folders are removed in one go."""


def remove_old_output(runs_dir: Path, before: Moment) -> int:
    """Remove folders of runs made before the moment without a file written since; return their number.

    A folder's name is the run's id, which contains its time. If `MOST` were removed there may be more.
    """
    bound, removed = first_id_at(before), 0
    if not runs_dir.is_dir():
        return removed
    with os.scandir(runs_dir) as folders:  # no list of them all: there may be millions
        for entry in folders:
            folder = Path(entry)
            if folder.name < bound and _last_written(folder) < before:
                shutil.rmtree(folder, ignore_errors=True)
                removed += not folder.exists()
            if removed == MOST:
                break
    return removed


def remove_old_logs(folder: Path, before: float) -> None:
    """Remove the files of worker processes that were written before that time (seconds since 1970), if possible."""
    for file in folder.glob("*.log"):
        with suppress(OSError):
            if file.stat().st_mtime < before:
                file.unlink()


def _last_written(folder: Path) -> float:
    """Return the moment of the newest write in the folder. A file that has vanished counts as old."""
    times = [0.0]
    for path in (folder, *folder.glob("*.log")):
        try:
            times.append(path.stat().st_mtime * SECOND)
        except OSError:
            continue
    return max(times)
