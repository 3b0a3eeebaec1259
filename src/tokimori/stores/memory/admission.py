"""Admission of ready runs, in memory: the state of lines before a claim."""

from collections.abc import Iterable
from dataclasses import dataclass

from tokimori.model.ids import Incarnation, Lane
from tokimori.model.semaphores import KEY_LINE, line_of
from tokimori.model.transitions import RunState
from tokimori.stores.memory.lines import free_units, place_in_line, programs_in_line, running_of_key
from tokimori.stores.memory.tables import RunRow, SemaphoreRow, Tables, in_line
from tokimori.stores.rules.lines import LinePlace
from tokimori.stores.rules.turns import Key


@dataclass(slots=True)
class MemoryLines:
    """See `Lines`. The heads of all lines of semaphores are looked for once."""

    tables: Tables
    _heads: dict[tuple[str, Lane | None], LinePlace] | None = None

    def running(self, incarnation: Incarnation) -> int:
        return len(self.tables.runs_of(incarnation, RunState.RUNNING))

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        incarnation, name = key
        blocked = self.tables.runs_of(incarnation, RunState.BLOCKED)
        waiting = (row for row in blocked if (row.run.blocked_on, row.run.concurrency_key) == (KEY_LINE, name))
        return running_of_key(self.tables, incarnation, name), next(map(_place, waiting), None)

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        self.tables.semaphores.setdefault(name, SemaphoreRow())
        return free_units(self.tables, name), next(map(place_in_line, programs_in_line(self.tables, name)), None)

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        if self._heads is None:
            self._heads = _heads(row for row in self.tables.live.values() if row.run.blocked_on is not None)
        return self._heads.get((line_of(name), lane))


def _heads(blocked: Iterable[RunRow]) -> dict[tuple[str, Lane | None], LinePlace]:
    """Return the first of each lane of each line."""
    heads: dict[tuple[str, Lane | None], LinePlace] = {}
    for row in sorted(blocked, key=in_line):
        heads.setdefault((row.run.blocked_on or "", row.run.lane), _place(row))
    return heads


def _place(row: RunRow) -> LinePlace:
    return LinePlace(row.run.rank, row.run.id, 1)
