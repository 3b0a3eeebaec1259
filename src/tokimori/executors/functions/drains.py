"""Worker processes that have to be ended because of runs that do not end: what else they run gets time before."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from tokimori.executors.functions.process import Assignment, WorkerProcess
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper_deaths import runs_of

log = logging.getLogger(__name__)


class Drains:
    """The processes that are drained, the one that began first is first. `kill` ends one, `changed` hears of each."""

    def __init__(self, kill: Callable[[WorkerProcess], object], changed: Callable[[], object]) -> None:
        self._kill = kill
        self._changed = changed
        self._alarms: dict[WorkerProcess, asyncio.TimerHandle] = {}

    @property
    def processes(self) -> Sequence[WorkerProcess]:
        """Return them, the one that began first is first."""
        return list(self._alarms)

    def add(self, process: WorkerProcess, attempt: Assignment, seconds: float, most: int) -> None:
        """Let a process take no more, as this attempt does not end, and end it in so many seconds at the latest.

        Of more processes than `most` the one that began first is ended at once.
        """
        process.overdue.add(attempt.number)
        if process.blamed is None:
            process.blamed, process.drained_until = attempt, boottime() + seconds
            process.leave()
            self._alarms[process] = asyncio.get_running_loop().call_later(seconds, self._end, process)
            who = runs_of([attempt.task])
            beside = runs_of([each.task for each in process.attempts.values() if each is not attempt])
            log.warning(
                "worker process %d (pid %s) takes no more, and is ended within %g s: %s does not end; beside it: %s",
                *(process.number, process.pid, seconds, who, beside),
            )
            while len(self._alarms) > most:
                self._end(next(iter(self._alarms)))
        self.look_at(process)
        self._changed()

    def look_at(self, process: WorkerProcess) -> None:
        """End it once nothing runs in it but what does not end; where that has ended after all, it leaves by itself."""
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
