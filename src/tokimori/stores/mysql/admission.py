"""Admission of ready runs: the state of lines before a claim, and what the claim writes to them.

All locks are taken by SKIP LOCKED: nothing is waited for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.encoding import definition_of
from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.job import Definition, units_here
from tokimori.model.lanes import queue_of
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, line_of, rate_of_queue
from tokimori.stores.mysql.lines import TRY_LOCK, USED, counts_of, rates_in, running_of_keys
from tokimori.stores.mysql.rates import known_of, take, write_turns
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, count_places, insert, places_of, sql
from tokimori.stores.rows import PERMIT, permit_row
from tokimori.stores.rules.admission import Admission, Candidate, candidate_of, in_queue
from tokimori.stores.rules.claiming import run_permit
from tokimori.stores.rules.lines import Key, LinePlace
from tokimori.stores.rules.rates import Rated

_GATES = f"SELECT incarnation, max_running, definition, lane FROM tokimori_jobs {BY_KEY} WHERE incarnation IN (%s)"
# Asked behind the locks of the gates: what begins to move later has waited for them.
_MOVES = "SELECT incarnation, forced_lane, reason IS NOT NULL FROM tokimori_moves WHERE incarnation IN (%s)"
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


class _Gate(NamedTuple):
    """A job whose gate is locked, and how many of its runs run."""

    limit: int
    definition: Definition
    lane: Lane | None
    running: int = 0


class MysqlLines(NamedTuple):
    """See `Lines`. Gates and semaphores that one claim has locked, and counts made behind the locks.

    `unknown`: semaphores that do not exist yet; runs that want them can't be claimed before. `strays` have still to
    move to these lanes after a change of their job. `queues` are rates of queues.
    """

    gates: Mapping[Incarnation, _Gate] = MappingProxyType({})
    keys: Mapping[Key, tuple[int, LinePlace | None]] = MappingProxyType({})
    semaphores: Mapping[str, tuple[int, LinePlace | None]] = MappingProxyType({})
    heads: Mapping[tuple[str, Lane], LinePlace] = MappingProxyType({})
    rates: Mapping[str, Rated] = MappingProxyType({})
    unknown: frozenset[str] = frozenset()
    strays: Mapping[RunId, Lane | None] = MappingProxyType({})
    queues: frozenset[str] = frozenset()

    def candidate(self, run: Run) -> Candidate | None:
        """Return the run for its judgement. None: others hold its job or a semaphore, or it is unreadable here."""
        gate = self.gates.get(run.incarnation)
        candidate = None if gate is None else in_queue(candidate_of(run, gate.definition), self.queues)
        if candidate is None or any(name not in self.semaphores for name, _ in candidate.units):
            return None
        return candidate

    def running(self, incarnation: Incarnation) -> int:
        return self.gates[incarnation].running

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        return self.keys.get(key, (0, None))

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        return self.semaphores[name]

    def rated(self, name: str) -> Rated | None:
        return self.rates.get(name)

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        return None if lane is None else self.heads.get((name, lane))


def writes_of(admission: Admission, locked: MysqlLines, taken: Mapping[RunId, Run], now: Moment) -> Iterator[str]:
    """Yield the writes for permits of claimed runs, for these runs, and for the lines of refused ones."""
    for name, units in sorted(admission.taken.items()):
        yield from take(name, locked.rates[name].rate, units)
    yield from write_turns(admission.turns)
    permits = [run_permit(taken[run_id], name, weight, now) for run_id, name, weight in admission.held]
    if permits:
        holders = sorted({run_id for run_id, *_ in admission.held})
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET holds = true WHERE id IN (%s)", holders)
    yield from insert("INSERT", "tokimori_permits", PERMIT, [permit_row(permit) for permit in permits])
    refused: dict[str, list[RunId]] = {}
    for refused_by, run_id in admission.refused:
        refused.setdefault(refused_by, []).append(run_id)
    for refused_by, runs in refused.items():
        joins = f"UPDATE tokimori_runs {BY_KEY} SET state = 'blocked', blocked_on = %s WHERE id IN (%s)"
        yield sql(joins, refused_by or None, runs)


async def lock_lines(transaction: Transaction, found: Sequence[tuple[Run, int]], queues: frozenset[str]) -> MysqlLines:
    """Lock the gates and semaphores of these runs. The limit of each run's job was read without a lock."""
    gates, keys, moved = await _open_gates(transaction, found)
    strays = dict(_strays(gates, moved, [run for run, _ in found])) if moved.rows else {}
    wanted = {inc: [name for name, _ in units_here(gate.definition, inc)] for inc, gate in gates.items()}
    names = {name for run, _ in found for name in wanted.get(run.incarnation, ())}
    paced = {run.lane for run, _ in found if run.lane and rate_of_queue(queue_of(run.lane)) in queues}
    names |= {rate_of_queue(queue_of(lane)) for lane in paced}
    if not names:
        return MysqlLines(gates, keys, strays=strays)
    lanes = sorted({run.lane for run, _ in found if run.lane and wanted.get(run.incarnation)} | paced)
    semaphores, heads, rates, unknown = await _open_semaphores(transaction, sorted(names), lanes)
    return MysqlLines(gates, keys, semaphores, heads, rates, unknown, strays, queues)


def _strays(
    gates: Mapping[Incarnation, _Gate], moved: Answer, runs: Sequence[Run]
) -> Iterator[tuple[RunId, Lane | None]]:
    """Yield the runs that are in a wrong lane, with the right one. Runs of a deleted job have none."""
    moves = {job: (forced, is_gone) for job, forced, is_gone in moved.rows}
    for run in runs:
        gate, (forced, is_gone) = gates.get(run.incarnation), moves.get(run.incarnation, (None, False))
        lane = None if gate is None else forced or gate.lane
        if run.incarnation in moves and (is_gone or gate is not None) and lane != run.lane:
            yield run.id, lane


async def _open_gates(
    transaction: Transaction, found: Sequence[tuple[Run, int]]
) -> tuple[dict[Incarnation, _Gate], dict[Key, tuple[int, LinePlace | None]], Answer]:
    """Lock the rows of the jobs: shared for jobs without a limit, exclusively for those whose runs are counted."""
    counted = sorted({run.incarnation for run, limit in found if limit or run.concurrency_key is not None})
    free = sorted({run.incarnation for run, _ in found}.difference(counted))
    keys = sorted({(run.incarnation, run.concurrency_key) for run, _ in found if run.concurrency_key is not None})
    statements = []
    if free:
        statements.append(sql(f"{_GATES} AND max_running = 0 ORDER BY incarnation {SHARED} SKIP LOCKED", free))
    if counted:
        locked = sql(f"{_GATES} ORDER BY incarnation FOR UPDATE SKIP LOCKED", counted)
        statements += [locked, count_places(counted)]
    if keys:
        firsts = " UNION ALL ".join(sql(_FIRST_OF_KEY, each, KEY_LINE, key) for each, key in keys)
        statements += [running_of_keys(keys), firsts]
    statements.append(sql(_MOVES, sorted({run.incarnation for run, _ in found})))
    *rest, moved = await transaction.ask(*statements)
    answers = iter(rest)
    gates = _gates_of(next(answers).rows) if free else {}
    if counted:
        gates |= _gates_of(next(answers).rows)
        for incarnation, place in places_of(next(answers)).items():
            if incarnation in gates:
                gates[incarnation] = gates[incarnation]._replace(running=place.running)
    return gates, _keys_of(keys, next(answers), next(answers)) if keys else {}, moved


def _gates_of(rows: Iterable[tuple[Incarnation, int, str, Lane | None]]) -> dict[Incarnation, _Gate]:
    definitions: dict[str, Definition | None] = {}
    gates = {}
    for incarnation, limit, text, lane in rows:
        if text not in definitions:
            definitions[text] = definition_of(text)
        definition = definitions[text]
        if definition is not None:  # else this program cannot read it: its gate stays shut
            gates[incarnation] = _Gate(limit, definition, lane)
    return gates


def _keys_of(keys: Iterable[Key], running: Answer, firsts: Answer) -> dict[Key, tuple[int, LinePlace | None]]:
    counts = counts_of(running)
    heads = {(incarnation, key): LinePlace(rank, run_id, 1) for incarnation, key, rank, run_id in firsts.rows}
    return {key: (counts.get(key, 0), heads.get(key)) for key in keys}


async def _open_semaphores(
    transaction: Transaction, names: Sequence[str], lanes: Sequence[Lane]
) -> tuple[
    dict[str, tuple[int, LinePlace | None]], dict[tuple[str, Lane], LinePlace], dict[str, Rated], frozenset[str]
]:
    """Lock the semaphores that no other transaction holds, and return these. Used units are counted after the locks."""
    columns = f"name, {USED}, {_FIRST_PROGRAM}{_FIRST_OF_LANE * len(lanes)}"
    known, ours, counted = await transaction.ask(
        sql(f"SELECT name FROM tokimori_semaphores {BY_KEY} WHERE name IN (%s)", names),
        sql(TRY_LOCK, names),
        sql(f"SELECT {columns} FROM tokimori_semaphores s {BY_KEY} WHERE name IN (%s)", *lanes, names),
    )
    limits, semaphores = {row[0]: row[1] for row in ours.rows}, dict[str, tuple[int, LinePlace | None]]()
    rates = {name: each.rated for name, each in (await known_of(transaction, rates_in(ours))).items()}
    heads: dict[tuple[str, Lane], LinePlace] = {}
    for name, used, program, *firsts in counted.rows:
        if name in limits:
            semaphores[name] = limits[name] - used, None if program is None else LinePlace(program, "", 1)
            heads |= {
                (name, lane): place_of(first) for lane, first in zip(lanes, firsts, strict=True) if first is not None
            }
    return semaphores, heads, rates, frozenset(names).difference(name for (name,) in known.rows)


def place_of(text: str) -> LinePlace:
    """Return the place of a run from a text with its rank and id."""
    rank, run_id = text.split(" ")
    return LinePlace(int(rank), run_id, 1)
