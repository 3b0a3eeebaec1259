"""The worker processes that there are: which is given a run, when another one starts, and which are drained."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from math import inf

from tokimori.executors.functions.process import OWN, Assignment, Phase, WorkerProcess
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.reported import runs_of
from tokimori.model.suspicion import ALIVE_AND_WELL, COMMON, pause_after


class Backoff:
    """Number of times in a row that an app could not be loaded, or a process died idle soon after its start.

    What began together fails together: of all that had begun at a failure none counts once more.
    """

    def __init__(self) -> None:
        self._not_loaded = self._died_idle = 0
        self._failed_at = -inf

    @property
    def pause(self) -> float:
        """Seconds before the next one; none after a single failure."""
        return pause_after(max(self._not_loaded, self._died_idle))

    def failed(self, began: float, at: float) -> bool:
        """Note that a process could not load its app; return whether that is the first failure in a row."""
        self._not_loaded += self._counts(began, at)
        return self._not_loaded == 1 and at == self._failed_at

    def loaded(self) -> None:
        """Note that a process could load the app. It may still die of what its app has begun."""
        self._not_loaded = 0

    def died_idle(self, began: float, at: float) -> None:
        """Note the death of a process that had said hello, but had neither been given nor ended anything."""
        if at - began >= ALIVE_AND_WELL:
            self._died_idle = 0
        else:
            self._died_idle += self._counts(began, at)

    def worked(self) -> None:
        """Note that a process has ended a run."""
        self._died_idle = 0

    def _counts(self, began: float, at: float) -> bool:
        counts = began >= self._failed_at
        if counts:
            self._failed_at = at
        return counts


log = logging.getLogger(__name__)

_LOOK = 0.02
"""Seconds between two looks at processes that are ending."""
SLOW_IMPORT = 10.0
"""Seconds after which the import of an app that still lasts is logged, again and again."""


class StartLog:
    """Log lines about the code of an app: once for each code, however often it is loaded.

    `unable`: the reason that no function starts now, or empty. `generation` is that of the newest code, `logged_in`
    that of the code last logged as unable.
    """

    def __init__(self) -> None:
        self.unable = ""
        self._found: tuple[str, ...] = ()
        self.logged_in: int | None = None
        self._slow_in: int | None = None

    def found(self, *found: str) -> None:
        """Remember the failure of the last process, and its output, which goes to the log alone."""
        self._found = found or self._found

    def cannot(self, generation: int) -> bool:
        """Note that no function is started; return whether that, or why, is new."""
        why = self._found[0] if self._found else ""
        if (generation, why) == (self.logged_in, self.unable):
            return False
        if generation != self.logged_in:
            reason = ": ".join(self._found)
            log.error("no function is started here, and none is claimed, until a process of the app lives: %s", reason)
        self.logged_in, self.unable = generation, why
        return True

    def can(self) -> bool:
        """Note that functions are started; return whether that is new."""
        if self.logged_in is None:
            return False
        self.logged_in, self.unable = None, ""
        log.warning("functions are started again, and claimed")
        return True

    def imports(self, app: str, generation: int, *, others: bool) -> None:
        """Report that the newest code is importing for long; `others`: processes with older code go on meanwhile."""
        self.found(f"the app {app!r} is still being imported")
        if others and generation != self._slow_in:
            self._slow_in = generation
            log.warning("the new code is still being imported; the processes with the code of before go on")


class Drains:
    """Processes to end because of runs that do not end, after their other runs had time to finish.

    The earliest is first. `kill` ends one, `changed` is called for each.
    """

    def __init__(self, kill: Callable[[WorkerProcess], object], changed: Callable[[], object]) -> None:
        self._kill = kill
        self._changed = changed
        self._alarms: dict[WorkerProcess, asyncio.TimerHandle] = {}

    @property
    def processes(self) -> Sequence[WorkerProcess]:
        """Return the drained processes, the earliest first."""
        return list(self._alarms)

    def add(self, process: WorkerProcess, attempt: Assignment, seconds: float, most: int) -> None:
        """Drain a process because of an attempt that does not end, and end it after `seconds` at the latest.

        If more than `most` processes drain, the earliest is ended at once.
        """
        process.overdue.add(attempt.number)
        if process.blamed is None:
            process.blamed, process.drained_until = attempt, boottime() + seconds
            process.leave()
            self._alarms[process] = asyncio.get_running_loop().call_later(seconds, self._end, process)
            who = runs_of([attempt.task])
            beside = runs_of([each.task for each in process.attempts.values() if each is not attempt])
            log.warning(
                "worker process %d (pid %s) gets no more runs, and is stopped within %g s: %s does not end;"
                " also in it: %s",
                *(process.number, process.pid, seconds, who, beside),
            )
            while len(self._alarms) > most:
                self._end(next(iter(self._alarms)))
        self.look_at(process)
        self._changed()

    def look_at(self, process: WorkerProcess) -> None:
        """End the process when only the stuck attempt is in it. If that ends after all, the process ends by itself."""
        if process not in self._alarms:
            return
        overdue = process.attempts.keys() & process.overdue
        if not overdue:
            self.forget(process)
            process.blamed = None
            self._changed()
        elif len(overdue) == len(process.attempts):
            self._end(process)

    def forget(self, process: WorkerProcess) -> None:
        """Forget the process: it need not be ended any more."""
        if (alarm := self._alarms.pop(process, None)) is not None:
            alarm.cancel()

    def _end(self, process: WorkerProcess) -> None:
        self.forget(process)
        process.killed = True
        self._kill(process)


class Pool(dict[int, WorkerProcess]):
    """All processes of a node, by their numbers."""

    def alive(self, cell: int) -> Iterator[WorkerProcess]:
        """Yield the processes of the cell that work or start."""
        return (each for each in self.values() if each.cell == cell and each.phase in (Phase.STARTING, Phase.READY))

    def idle_own(self, most: int) -> tuple[list[WorkerProcess], int]:
        """Return the processes for one run each that have none yet, and how many more there may be."""
        idle = [each for each in self.alive(OWN) if not each.has_worked]
        return idle, most - sum(each.cell == OWN for each in self.values())

    def fresh(self, generation: int, *, ready: bool = False) -> int:
        """Return how many with this code work for all jobs, or are on their way, and are not too old."""
        alive = (each for each in self.alive(COMMON) if each.is_ready or not ready)
        return sum(each.generation == generation and not each.worn for each in alive)

    def wear(self, before: float) -> bool:
        """Mark processes started before that time (seconds of CLOCK_BOOTTIME) as old; return if any mark is new."""
        old = [each for each in self.alive(COMMON) if each.is_ready and not each.worn and each.since < before]
        for process in old:
            process.worn = True
        return bool(old)

    def relieved(self, generation: int, most: int) -> list[WorkerProcess]:
        """Return old processes, once enough others are ready."""
        enough = self.fresh(generation, ready=True) >= most
        return [each for each in self.alive(COMMON) if each.worn and each.is_ready] if enough else []

    async def let_stop(self, within: float) -> None:
        """Ask idle processes with stop hooks to leave; wait for their exit, for `within` seconds at most."""
        stopping = [each for each in self.values() if each.stops and not each.load]
        for process in stopping:
            process.leave()
        until = boottime() + within
        while any(each.is_on_line for each in stopping) and boottime() < until:  # noqa: ASYNC110  a node stops once
            await asyncio.sleep(_LOOK)

    def hangs(self) -> bool:
        """Return whether processes are starting, and all of them were started long ago."""
        coming = [each.since for each in self.values() if each.phase is Phase.STARTING and each.since]
        return bool(coming) and max(coming) < boottime() - SLOW_IMPORT

    def has_ready(self, newest: int) -> bool:
        """Return if one with this generation of the code, or an older one, works for all jobs, and answers."""
        return any(each.answers for each in self._ready(newest))

    def all_silent(self, newest: int) -> bool:
        """Return if such processes are there, and none answers."""
        ready = list(self._ready(newest))
        return bool(ready) and not any(each.answers for each in ready)

    def _ready(self, newest: int) -> Iterator[WorkerProcess]:
        return (each for each in self.values() if each.is_ready and each.cell == COMMON and each.generation <= newest)

    def place(self, cell: int, newest: int) -> WorkerProcess | None:
        """Return the process of the cell that has room and the least to do, with code that is no newer."""
        best = None
        for each in self.values():
            counts = each.cell == cell and each.generation <= newest
            if counts and (best is None or len(each.attempts) < len(best.attempts)) and each.has_room:
                best = each
        return best

    def renew(self, lease: float) -> None:
        """Send processes with runs the time until which these may begin."""
        for process in self.values():
            process.renew(lease)

    def flush(self) -> None:
        """Send the messages that wait for the processes."""
        for process in self.values():
            process.flush()
