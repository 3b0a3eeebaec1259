"""What stands between a ready run and its claim: the job's limit, its key's, and its semaphores. In memory."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, Lane
from tokimori.model.job import Job, limit_of, units_here
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, line_of
from tokimori.model.transitions import RunState
from tokimori.stores.memory.line import programs_in_line, running_of_key, used_units
from tokimori.stores.memory.tables import SemaphoreRow, Tables
from tokimori.stores.rules.claiming import run_permit
from tokimori.stores.rules.lines import Place, fits, must_join

Line = tuple[str, Incarnation | None, str | None]
"""A line, and for that of a key whose it is."""


@dataclass(slots=True)
class Admission:
    """Judges the ready runs of one claim, in order, and counts those that it took."""

    tables: Tables
    _running: dict[Incarnation, int] = field(default_factory=dict)
    _heads: dict[tuple[Line, Lane | None], Place] | None = None

    def refusal(self, run: Run, job: Job | None) -> str | None:
        """The first constraint that refuses the run, as in `Run.blocked_on`; None: it is taken."""
        if run.incarnation not in self._running:
            self._running[run.incarnation] = len(self.tables.runs_of(run.incarnation, RunState.RUNNING))
        if job is None or not fits(self._running[run.incarnation], limit_of(job.definition)):
            return LIMIT_LINE
        if run.concurrency_key is not None and self._key_refuses(run, job, run.concurrency_key):
            return KEY_LINE
        names = units_here(job.definition)
        refusing = (line_of(name) for name, weight in names if self._semaphore_refuses(run, name, weight))
        return next(refusing, None)

    def _key_refuses(self, run: Run, job: Job, key: str) -> bool:
        running = running_of_key(self.tables, run.incarnation, key)
        free = fits(running, job.definition.max_running_per_key)
        return self._joins(run, 1, line_for(run, KEY_LINE), fits=free, program=None)

    def _semaphore_refuses(self, run: Run, name: str, weight: int) -> bool:
        row = self.tables.semaphores.setdefault(name, SemaphoreRow())
        free = fits(used_units(self.tables, name), row.limit, weight)
        waiting = programs_in_line(self.tables, name)
        program = Place(waiting[0].rank, waiting[0].id, waiting[0].weight) if waiting else None
        return self._joins(run, weight, line_for(run, line_of(name)), fits=free, program=program)

    def _joins(self, run: Run, weight: int, line: Line, *, fits: bool, program: Place | None) -> bool:
        if self._heads is None:
            self._heads = _heads(row.run for row in self.tables.live.values() if row.run.blocked_on is not None)
        place = Place(run.rank, run.id, weight)
        joins = must_join(place, fits=fits, ahead=self._heads.get((line, run.lane)), program=program)
        if joins:
            self._heads[line, run.lane] = place  # before all that this claim still looks at
        return joins

    def take(self, run: Run, job: Job | None, now: Moment) -> None:
        """The run, as it is after its claim, holds its place and its units."""
        self._running[run.incarnation] += 1
        for name, weight in () if job is None else units_here(job.definition):
            permit = run_permit(run, name, weight, now)
            self.tables.permits[permit.id] = permit


def line_for(run: Run, blocked_on: str) -> Line:
    """The line of this name in which the run would stand: that of a key is one for each job and key."""
    return (blocked_on, run.incarnation, run.concurrency_key) if blocked_on == KEY_LINE else (blocked_on, None, None)


def _heads(blocked: Iterable[Run]) -> dict[tuple[Line, Lane | None], Place]:
    """The first of each lane of each line."""
    heads: dict[tuple[Line, Lane | None], Place] = {}
    for run in sorted(blocked, key=lambda run: (run.rank, run.id)):
        heads.setdefault((line_for(run, run.blocked_on or LIMIT_LINE), run.lane), Place(run.rank, run.id, 1))
    return heads
