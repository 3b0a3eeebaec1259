"""The worker processes that there are, and which of them is given a run."""

from collections.abc import Iterator

from tokimori.executors.functions.process import OWN, Phase, WorkerProcess
from tokimori.executors.functions.telling import SLOW_IMPORT
from tokimori.executors.keeper.kernel import boottime
from tokimori.model.suspicion import COMMON


class Pool(dict[int, WorkerProcess]):
    """All processes of a node, by their numbers."""

    def alive(self, cell: int) -> Iterator[WorkerProcess]:
        """Yield those of the cell that work, or are on their way."""
        return (each for each in self.values() if each.cell == cell and each.phase in (Phase.STARTING, Phase.READY))

    def idle_own(self, most: int) -> tuple[list[WorkerProcess], int]:
        """Return the processes for one run each that have none yet, and how many more there may be."""
        idle = [each for each in self.alive(OWN) if not each.has_worked]
        return idle, most - sum(each.cell == OWN for each in self.values())

    def hangs(self) -> bool:
        """Return if processes are on their way, all of which were started long ago."""
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

    def flush(self) -> None:
        """Send what was given to them."""
        for process in self.values():
            process.flush()
