"""Admission of ready runs to a claim: the limits of their job and key, and their semaphores."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.job import Definition, limit_of, units_here
from tokimori.model.lanes import queue_of
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, is_rate_alone, line_of, rate_of_queue
from tokimori.model.transitions import RunState
from tokimori.stores.rules.lines import Freed, Key, LinePlace, Turn, fits, must_join
from tokimori.stores.rules.rates import Rated, Turns


class Candidate(NamedTuple):
    """A ready run, with the limits of its job."""

    rank: int
    id: RunId
    incarnation: Incarnation
    lane: Lane | None
    max_running: int
    concurrency_key: str | None = None
    max_per_key: int = 1
    units: Sequence[tuple[str, int]] = ()
    """Names and weights of the semaphores that it wants, by name."""


def candidate_of(run: Run, definition: Definition) -> Candidate:
    """Return the candidate for a ready run of a job with this definition."""
    return Candidate(
        rank=run.rank,
        id=run.id,
        incarnation=run.incarnation,
        lane=run.lane,
        max_running=limit_of(definition),
        concurrency_key=run.concurrency_key,
        max_per_key=definition.max_running_per_key,
        units=units_here(definition, run.incarnation),
    )


def in_queue(run: Candidate, rates: Collection[str]) -> Candidate:
    """Return the run, with a unit of the rate of its queue if that is among these."""
    name = rate_of_queue(queue_of(run.lane or Lane("")))
    return run._replace(units=sorted([*run.units, (name, 1)])) if name in rates else run


class Lines(Protocol):
    """Lines as they were before this claim; each is read once."""

    def running(self, incarnation: Incarnation) -> int:
        """Return how many runs of the job run."""
        ...

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        """Return how many runs of the key run, and the first one that waits for it."""
        ...

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        """Return the free units, below zero if the limit was lowered, and the first program that waits."""
        ...

    def rated(self, name: str) -> Rated | None:
        """Return the rate of the semaphore, if it has one."""
        ...

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        """Return the first run of the lane that waits for the semaphore."""
        ...


class Admission(Struct):
    """Judgement of the ready runs of one claim, in their order, with counts of places and units given to them.

    `held` are the permits of claimed runs: run, semaphore, weight. `refused` has the line that each other run joins,
    and `freed` the turns that these pass on in other lines. `taken` are the units of each rate, `turns` those of the
    semaphores whose row changes.
    """

    lines: Lines
    held: list[tuple[RunId, str, int]] = field(default_factory=list)
    refused: list[tuple[str, RunId]] = field(default_factory=list)
    freed: Freed = field(default_factory=Freed)
    running: dict[Incarnation | Key, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    turns: dict[str, Turns] = field(default_factory=dict)
    _rated: dict[str, Rated | None] = field(default_factory=dict)
    _free: dict[str, int] = field(default_factory=dict)
    _programs: dict[str, LinePlace | None] = field(default_factory=dict)
    _heads: dict[Key | tuple[str, Lane | None], LinePlace | None] = field(default_factory=dict)

    def takes(self, run: Candidate) -> bool:
        """Return if the run may run now; else it joins the line of the first constraint that refuses it."""
        refused_by = self._refusal(run)
        if refused_by is None:
            self._take(run)
            return True
        self.refused.append((refused_by, run.id))
        names = [name for name, _ in run.units]
        for name, weight in run.units:
            if self._rated.get(name) is not None:
                self.freed.semaphores.add(name)
                self._pass_rate(name, weight)
        self.freed.pass_on(Turn(run.incarnation, RunState.READY, run.concurrency_key, None, names), refused_by)
        return False

    def _refusal(self, run: Candidate) -> str | None:
        if run.incarnation not in self.running:
            self.running[run.incarnation] = self.lines.running(run.incarnation)
        if not fits(self.running[run.incarnation], run.max_running):
            return LIMIT_LINE
        if run.concurrency_key is not None and self._key_refuses(run, (run.incarnation, run.concurrency_key)):
            return KEY_LINE
        return next((line_of(name) for name, weight in run.units if self._semaphore_refuses(run, name, weight)), None)

    def _key_refuses(self, run: Candidate, key: Key) -> bool:
        if key not in self.running:
            self.running[key], self._heads[key] = self.lines.of_key(key)
        return self._joins(key, LinePlace(run.rank, run.id, 1), fits=fits(self.running[key], run.max_per_key))

    def _semaphore_refuses(self, run: Candidate, name: str, weight: int) -> bool:
        if name not in self._free:
            self._free[name], self._programs[name] = self.lines.of_semaphore(name)
            rated = self._rated[name] = self.lines.rated(name)
            if rated is not None:
                self._free[name] = min(self._free[name], rated.free)
        line = name, run.lane
        if line not in self._heads:
            self._heads[line] = self.lines.head(name, run.lane)
        rated = self._rated[name]
        kept_for = None if rated is None else rated.kept_for
        free = weight <= self._free[name] and kept_for in {None, run.lane}
        if rated is not None and self._free[name] < weight <= rated.rate.units:
            self._free[name] = 0  # the rest is reserved for it
        place = LinePlace(run.rank, run.id, weight)
        return self._joins(line, place, fits=free, program=self._programs[name])

    def _joins(
        self, line: Key | tuple[str, Lane | None], place: LinePlace, *, fits: bool, program: LinePlace | None = None
    ) -> bool:
        joins = must_join(place, fits=fits, ahead=self._heads[line], program=program)
        if joins:
            self._heads[line] = place  # before all that this claim still looks at
        return joins

    def _take(self, run: Candidate) -> None:
        self.running[run.incarnation] += 1
        if run.concurrency_key is not None:
            self.running[run.incarnation, run.concurrency_key] += 1
        for name, weight in run.units:
            self._free[name] -= weight
            if not is_rate_alone(name):
                self.held.append((run.id, name, weight))
            rated = self._rated[name]
            if rated is not None:
                self.taken[name] = self.taken.get(name, 0) + weight
                self._free[name] = 0 if rated.rate.smooth else self._free[name]
                self._pass_rate(name, weight, by=run.lane)

    def _pass_rate(self, name: str, weight: int, *, by: Lane | None = None) -> None:
        """Note at a rate that a run takes its units, or gives up its turn. Units kept for it are free then."""
        rated = self._rated[name]
        if rated is None or not (rated.turns.woken or rated.turns.kept):
            return
        turns = rated.after(weight, by=by)
        if rated.turns.kept and not turns.kept:
            self.freed.semaphores.add(name)
        self.turns[name] = turns
        self._rated[name] = rated._replace(turns=turns)
