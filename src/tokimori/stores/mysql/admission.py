"""What stands between a ready run and its claim: the job's limit, its key's, and its semaphores.

All locks are taken by SKIP LOCKED: nothing is waited for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, Lane
from tokimori.model.job import Definition, units_here
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, line_of
from tokimori.stores.mysql import line, permits
from tokimori.stores.mysql.permits import Freed, Key
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, insert, sql
from tokimori.stores.rows import PERMIT, definition_of, permit_row
from tokimori.stores.rules.claiming import run_permit
from tokimori.stores.rules.lines import Place, fits, must_join

# The runs' own lanes say whether they may be claimed: who pauses a job takes them, under its gate.
_GATES = f"SELECT incarnation, max_running, definition FROM tokimori_jobs {BY_KEY} WHERE incarnation IN (%s)"
_FIRST_OF_KEY = """(
SELECT incarnation, concurrency_key, "rank", id FROM tokimori_runs FORCE INDEX (tokimori_runs_keys)
WHERE incarnation = %s AND blocked_on = %s AND concurrency_key = %s AND state = 'blocked' AND lane IS NOT NULL
ORDER BY "rank", id LIMIT 1)
"""
_FIRST_PROGRAM = """(
    SELECT "rank" FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = s.name AND token IS NULL ORDER BY "rank", id LIMIT 1)"""
_FIRST_OF_LANE = f""", (
    SELECT CONCAT("rank", ' ', id) FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked)
    WHERE blocked_on = CONCAT('{line_of("")}', s.name) AND lane = %s AND state = 'blocked'
    ORDER BY "rank", id LIMIT 1)"""


@dataclass(slots=True)
class _Gate:
    """A job whose gate is locked, and how many of its runs run, of all keys and of each; who waits for a key."""

    limit: int
    definition: Definition
    wanted: Sequence[tuple[str, int]]
    running: int = 0
    of_keys: Counter[str] = field(default_factory=Counter)
    ahead: dict[str, Place] = field(default_factory=dict)


@dataclass(slots=True)
class _Units:
    """A semaphore that is locked: units that are held, and who waits, a program and the first run of each lane."""

    limit: int
    used: int
    program: Place | None
    ahead: dict[Lane, Place]


@dataclass(slots=True)
class Admission:
    """Judges the ready runs of one claim, in order, and counts those that it takes.

    `unknown`: semaphores that nobody has made yet; nothing can be claimed of who wants them before they are.
    """

    gates: dict[Incarnation, _Gate] = field(default_factory=dict)
    units: dict[str, _Units] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    _taken: list[Run] = field(default_factory=list)
    _refused: dict[str, list[Run]] = field(default_factory=dict)

    def open(self, run: Run) -> _Gate | None:
        """The job's gate; None: it, or a semaphore, is locked by somebody else, or the job can't be read."""
        gate = self.gates.get(run.incarnation)
        return None if gate is None or any(name not in self.units for name, _ in gate.wanted) else gate

    def refuses(self, run: Run, gate: _Gate) -> bool:
        """Whether a constraint does, the first of which the run joins."""
        refusing = next(self._refusing(run, gate), None)
        if refusing is not None:
            self._refused.setdefault(refusing, []).append(run)
        return refusing is not None

    def _refusing(self, run: Run, gate: _Gate) -> Iterator[str]:
        if not fits(gate.running, gate.limit):
            yield LIMIT_LINE
        key = run.concurrency_key
        if key is not None:
            place, ahead = Place(run.rank, run.id, 1), gate.ahead.get(key)
            room = fits(gate.of_keys[key], gate.definition.max_running_per_key)
            if must_join(place, fits=room, ahead=ahead, program=None):
                gate.ahead[key] = place if ahead is None else min(ahead, place)
                yield KEY_LINE
        for name, weight in gate.wanted:
            units, place, lane = self.units[name], Place(run.rank, run.id, weight), Lane(run.lane or "")
            ahead = units.ahead.get(lane)
            room = fits(units.used, units.limit, weight)
            if must_join(place, fits=room, ahead=ahead, program=units.program):
                units.ahead[lane] = place if ahead is None else min(ahead, place)
                yield line_of(name)

    def take(self, run: Run, gate: _Gate) -> None:
        """The run, as it is after its claim, holds its place and its units."""
        gate.running += 1
        if run.concurrency_key is not None:
            gate.of_keys[run.concurrency_key] += 1
        for name, weight in gate.wanted:
            self.units[name].used += weight
        if gate.wanted:
            self._taken.append(run)

    def writes(self, now: Moment) -> Iterator[str]:
        """The permits of what was taken, and the lines of what was refused."""
        rows = [
            permit_row(run_permit(run, name, weight, now))
            for run in self._taken
            for name, weight in self.gates[run.incarnation].wanted
        ]
        if rows:
            yield sql(f"UPDATE tokimori_runs {BY_KEY} SET holds = true WHERE id IN (%s)", [r.id for r in self._taken])
        yield from insert("INSERT", "tokimori_permits", PERMIT, rows)
        for refusing, runs in self._refused.items():
            joins = f"UPDATE tokimori_runs {BY_KEY} SET state = 'blocked', blocked_on = %s WHERE id IN (%s)"
            yield sql(joins, refusing or None, [run.id for run in runs])

    def passed(self) -> Counter[Incarnation]:
        """What another constraint refuses may be what a place of its job's limit has woken."""
        refused = (run.incarnation for refusing, runs in self._refused.items() if refusing for run in runs)
        return Counter(each for each in refused if self.gates[each].limit)

    def places(self) -> dict[Incarnation, line.Place]:
        """How many runs of the jobs run by now."""
        return {
            each: line.Place(gate.limit, gate.running, has_line=True) for each, gate in self.gates.items() if gate.limit
        }

    def freed(self) -> Freed:
        """The turns that what was refused may have had elsewhere."""
        freed = Freed()
        for refusing, runs in self._refused.items():
            for run in runs:
                freed.pass_on(run, (name for name, _ in self.gates[run.incarnation].wanted), refusing)
        return freed


async def admission(transaction: Transaction, found: Sequence[tuple[Run, int]]) -> Admission:
    """Lock what these runs need, each with its job's limit as it was read without a lock."""
    gates = await _open_gates(transaction, found)
    runs = [run for run, _ in found if run.incarnation in gates and gates[run.incarnation].wanted]
    if not runs:
        return Admission(gates)
    names = {name for run in runs for name, _ in gates[run.incarnation].wanted}
    units, unknown = await _open_semaphores(transaction, sorted(names), sorted({run.lane for run in runs if run.lane}))
    return Admission(gates, units, unknown)


async def _open_gates(transaction: Transaction, found: Sequence[tuple[Run, int]]) -> dict[Incarnation, _Gate]:
    """Gates of jobs without a limit are shared with other claims; who counts a job's runs holds its gate alone."""
    counted = sorted({run.incarnation for run, limit in found if limit or run.concurrency_key is not None})
    free = sorted({run.incarnation for run, _ in found}.difference(counted))
    keys = sorted({(run.incarnation, run.concurrency_key) for run, _ in found if run.concurrency_key is not None})
    statements = []
    if free:
        statements.append(sql(f"{_GATES} AND max_running = 0 ORDER BY incarnation {SHARED} SKIP LOCKED", free))
    if counted:
        locked = sql(f"{_GATES} ORDER BY incarnation FOR UPDATE SKIP LOCKED", counted)
        statements += [locked, line.count_places(counted)]
    if keys:
        firsts = " UNION ALL ".join(sql(_FIRST_OF_KEY, each, KEY_LINE, key) for each, key in keys)
        statements += [permits.running_of_keys(keys), firsts]
    answers = iter(await transaction.ask(*statements) if statements else ())
    gates = _gates_of(next(answers).rows) if free else {}
    if counted:
        gates |= _gates_of(next(answers).rows)
        for incarnation, place in line.places_of(next(answers)).items():
            if incarnation in gates:
                gates[incarnation].running = place.running
    if keys:
        _count_keys(gates, permits.counts_of(next(answers)), next(answers).rows)
    return gates


def _gates_of(rows: Iterable[tuple[Incarnation, int, str]]) -> dict[Incarnation, _Gate]:
    definitions: dict[str, Definition | None] = {}
    gates = {}
    for incarnation, limit, text in rows:
        if text not in definitions:
            definitions[text] = definition_of(text)
        definition = definitions[text]
        if definition is not None:  # else it can't be read: its gate stays shut
            gates[incarnation] = _Gate(limit, definition, units_here(definition))
    return gates


def _count_keys(
    gates: Mapping[Incarnation, _Gate],
    running: Mapping[Key, int],
    firsts: Iterable[tuple[Incarnation, str, int, str]],
) -> None:
    for (incarnation, key), count in running.items():
        if incarnation in gates:
            gates[incarnation].of_keys[key] = count
    for incarnation, key, rank, run_id in firsts:
        if incarnation in gates:
            gates[incarnation].ahead[key] = Place(rank, run_id, 1)


async def _open_semaphores(
    transaction: Transaction, names: Sequence[str], lanes: Sequence[Lane]
) -> tuple[dict[str, _Units], frozenset[str]]:
    """What is used is counted by a statement of its own, after the locks."""
    columns = f"name, {permits.USED}, {_FIRST_PROGRAM}{_FIRST_OF_LANE * len(lanes)}"
    known, ours, counted = await transaction.ask(
        sql(f"SELECT name FROM tokimori_semaphores {BY_KEY} WHERE name IN (%s)", names),
        sql(permits.TRY_LOCK, names),
        sql(f"SELECT {columns} FROM tokimori_semaphores s {BY_KEY} WHERE name IN (%s)", *lanes, names),
    )
    limits, units = dict(ours.rows), {}
    for name, used, program, *firsts in counted.rows:
        if name in limits:
            ahead = {lane: _place(first) for lane, first in zip(lanes, firsts, strict=True) if first is not None}
            first_program = None if program is None else Place(program, "", 1)
            units[name] = _Units(limits[name], used, first_program, ahead)
    return units, frozenset(names).difference(name for (name,) in known.rows)


def _place(text: str) -> Place:
    rank, run_id = text.split(" ")
    return Place(int(rank), run_id, 1)
