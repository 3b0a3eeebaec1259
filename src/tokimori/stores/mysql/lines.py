"""Lines of semaphores and concurrency keys: their locks, free units, and the next in line. Pauses of queues.

A transaction that takes or frees units of a semaphore, joins its line or moves it, locks its row. The line of a key is
locked by the gate of its job.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tokimori.model.ids import Incarnation, Lane, NodeId, PermitId, RunId
from tokimori.model.lanes import Pause, open_lanes
from tokimori.model.semaphores import DEFAULT_LIMIT, KEY_LINE, QUEUE_RATES, line_of, made_with
from tokimori.stores.mysql.faults import FAULTS, is_refusal
from tokimori.stores.mysql.rates import TURNS, Known, known_of, take, write_turns
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, Places, insert, sql, wake
from tokimori.stores.rows import PAUSE, Row, pause_of, pause_row
from tokimori.stores.rules.lines import (
    MOST_SERVED,
    MOST_SWEPT,
    Freed,
    Key,
    LinePlace,
    programs_served,
    room,
    runs_woken,
)
from tokimori.stores.rules.rates import Line, serve_in_turn

_GATE = ""
"""Row without a queue: claims share its lock, a pause holds it alone."""
_INSERT_GATE = "INSERT INTO tokimori_pauses (queue, since) VALUES ('', 0)"
MAKE_GATE = _INSERT_GATE.replace("INSERT", "INSERT IGNORE")
PAUSED = "SELECT queue FROM tokimori_pauses"
SHARED_PAUSED = f"{PAUSED} {SHARED} SKIP LOCKED"
"""The same until the claim ends; without the gate while a pause is under way, as a claim waits for no lock."""
RATES_OF_QUEUES = sql(
    f"SELECT name FROM tokimori_semaphores {BY_KEY} WHERE name > %s AND name < %s AND rate IS NOT NULL", *QUEUE_RATES
)


async def add_pause(transaction: Transaction, pause: Pause) -> Pause:
    """See `Pausing.add_pause`. Claims under way are waited for."""
    await transaction.ask(f"{_INSERT_GATE} ON DUPLICATE KEY UPDATE queue = tokimori_pauses.queue")
    _, kept = await transaction.ask(
        sql(
            f"INSERT INTO tokimori_pauses ({PAUSE}) VALUES %s ON DUPLICATE KEY UPDATE queue = tokimori_pauses.queue",
            pause_row(pause),
        ),
        sql(f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue = %s", pause.queue),
    )
    await transaction.commit()
    return pause_of(kept.rows[0])


def claimable(lanes: Collection[Lane], shared_paused: Answer) -> tuple[Lane, ...]:
    """Return the lanes that are not paused, by the answer to `SHARED_PAUSED`."""
    paused = {queue for (queue,) in shared_paused.rows}
    return open_lanes(lanes, paused - {_GATE}) if _GATE in paused else ()


def paused_queues(paused: Answer) -> frozenset[str]:
    """Return the paused queues, by the answer to `PAUSED`."""
    return frozenset(queue for (queue,) in paused.rows) - {_GATE}


# Chosen without a lock, then locked, as gates are.
_LOCK = f"""
SELECT s.name
FROM (
    SELECT name FROM tokimori_semaphores {BY_KEY} WHERE name IN (%s)
    UNION SELECT semaphore FROM tokimori_permits {BY_KEY} WHERE id IN (%s)
    UNION SELECT semaphore FROM tokimori_permits FORCE INDEX (tokimori_permits_run) WHERE run_id IN (%s)
    UNION SELECT semaphore FROM tokimori_permits FORCE INDEX (tokimori_permits_owned)
        WHERE node_id IN (%s) AND run_id IS NULL
    ORDER BY name LIMIT 1000000
) chosen STRAIGHT_JOIN tokimori_semaphores s {BY_KEY} ON s.name = chosen.name
ORDER BY s.name FOR UPDATE"""
TRY_LOCK = f"""
SELECT name, "limit", {TURNS} FROM tokimori_semaphores {BY_KEY} WHERE name IN (%s)
ORDER BY name FOR UPDATE SKIP LOCKED"""
USED = """(
    SELECT CAST(COALESCE(SUM(weight), 0) AS SIGNED) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = s.name AND token IS NOT NULL)"""
"""Units that are held of a semaphore `s`."""
_FREE = f"""
SELECT name, "limit", GREATEST(granted, COALESCE((SELECT newest FROM tokimori_tokens WHERE one = true), 0)), {USED},
    {TURNS}
FROM tokimori_semaphores s {BY_KEY} WHERE name IN (%s)"""
_PROGRAMS = """
SELECT "rank", id, weight FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
WHERE semaphore = %s AND token IS NULL ORDER BY "rank", id LIMIT %s"""
_LANES = """
SELECT DISTINCT blocked_on, lane FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked) WHERE blocked_on = %s"""
# The inner queries keep the server from sorting the whole line.
_HEADS = f"""
SELECT r."rank", r.id, j.semaphores
FROM (
    SELECT "rank", id, incarnation FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked)
    WHERE blocked_on = %s AND lane = %s AND state = 'blocked' ORDER BY "rank", id LIMIT %s
) r STRAIGHT_JOIN tokimori_jobs j {BY_KEY} ON j.incarnation = r.incarnation
ORDER BY r."rank", r.id"""
_FIRST_READY = """
SELECT "rank" FROM tokimori_runs FORCE INDEX (tokimori_runs_ready) WHERE state = 'ready' AND lane = %s
ORDER BY "rank", id LIMIT 1"""
_WAKE = f"UPDATE tokimori_runs {BY_KEY} SET state = 'ready', blocked_on = NULL WHERE id IN (%s) AND state = 'blocked'"
_WAKE_LATER = """
INSERT INTO tokimori_moves (incarnation, origin, woken, names, since)
SELECT incarnation, '', (SELECT COUNT(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running'),
    '[]', 0
FROM tokimori_jobs j WHERE incarnation = %s AND EXISTS (
    SELECT 1 FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'blocked')
ON DUPLICATE KEY UPDATE origin = '', woken = VALUES(woken)"""
_WAKE_KEY = f"""
UPDATE (
    SELECT id FROM tokimori_runs FORCE INDEX (tokimori_runs_keys)
    WHERE incarnation = %s AND blocked_on = %s AND concurrency_key = %s AND state = 'blocked'
    ORDER BY "rank", id LIMIT %s
) head STRAIGHT_JOIN tokimori_runs r {BY_KEY} ON r.id = head.id SET r.state = 'ready', r.blocked_on = NULL"""
_RUNNING_OF_KEYS = """
SELECT incarnation, concurrency_key, COUNT(*) FROM tokimori_runs FORCE INDEX (tokimori_runs_line)
WHERE incarnation IN (%s) AND state = 'running' AND concurrency_key IN (%s) GROUP BY incarnation, concurrency_key"""
LINES = f"""
SELECT DISTINCT blocked_on, lane FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked)
WHERE blocked_on > '{line_of("")}' LIMIT 1000"""
"""Lanes in which runs wait for semaphores."""
STUCK = f"""
SELECT s.name, line.lane FROM (
    {LINES}
) line STRAIGHT_JOIN tokimori_semaphores s {BY_KEY} ON s.name = SUBSTRING(line.blocked_on, {len(line_of("")) + 1})
WHERE s."limit" > {USED} LIMIT {25 * MOST_SWEPT}"""
"""Lanes of semaphores with free units in which runs wait: those without ready runs are swept."""


def lock(
    names: Iterable[str] = (),
    *,
    permits: Iterable[PermitId] = (),
    of_runs: Iterable[RunId] = (),
    of_programs: Iterable[NodeId] = (),
) -> str:
    """Lock the semaphores of these names, or of these permits of runs, or of a node's programs."""
    return sql(_LOCK, *(sorted(set(each)) for each in (names, permits, of_runs, of_programs)))


def locks(freed: Freed) -> list[str]:
    """Lock its semaphores, if it has any."""
    return [lock(freed.semaphores)] if freed.semaphores else []


def made(names: Iterable[str], limit: int = DEFAULT_LIMIT) -> Iterator[str]:
    """Make the missing semaphores; existing ones are locked, and stay as they are."""
    same = "ON DUPLICATE KEY UPDATE tokimori_semaphores.name = tokimori_semaphores.name"
    rows = [(name, *made_with(name, limit), 0) for name in sorted(names)]
    return insert("INSERT", "tokimori_semaphores", 'name, "limit", rate, granted', rows, same)


def rates_in(locked: Answer) -> list[tuple[str, Row]]:
    """Return the semaphores that were locked by `TRY_LOCK`, each with the columns `TURNS`."""
    return [(row[0], row[2:]) for row in locked.rows]


def names_in(column: str | None) -> dict[str, int]:
    """Return the semaphores that a job wants, by its column `semaphores`, and of each how many units."""
    return dict(json.loads(column)) if column else {}


def running_of_keys(keys: Iterable[Key]) -> str:
    """Count the running runs of keys; `counts_of` reads the answer."""
    wanted = list(keys)
    return sql(_RUNNING_OF_KEYS, *(sorted(set(each)) for each in zip(*wanted, strict=True)))


def counts_of(answer: Answer) -> dict[Key, int]:
    """Return the result of `running_of_keys`, which may have more than was asked for."""
    return {(incarnation, key): count for incarnation, key, count in answer.rows}


class SemaphoreLine(NamedTuple):
    """Line of a semaphore: free units, the newest token of a program, waiting programs, and waiting runs by lane.

    Runs of `paused` queues block no program. Of one with a rate, what is `known` of it; `passed`: lanes are left out.
    """

    name: str
    free: int
    granted: int
    programs: Sequence[LinePlace]
    lanes: Mapping[Lane, Sequence[LinePlace]] = MappingProxyType({})
    paused: frozenset[str] = frozenset()
    known: Known | None = None
    passed: bool = False

    @property
    def first_run(self) -> LinePlace | None:
        """Return the first run of all lanes that are not paused."""
        lanes = open_lanes(self.lanes, self.paused)
        return min((self.lanes[lane][0] for lane in lanes if self.lanes[lane]), default=None)

    def grants(self) -> list[LinePlace]:
        """Return the programs that are next."""
        rated = None if self.known is None else self.known.rated
        free = self.free if rated is None else min(self.free, rated.free)
        served = programs_served(free, self.programs, self.first_run)
        return served[:1] if rated is not None and rated.rate.smooth else served

    def next_runs(self, granted: Sequence[LinePlace]) -> tuple[list[str], list[str]]:
        """Return the runs that are next after that, and what is to be written of the rate."""
        units = sum(program.weight for program in granted)
        still = self.programs[len(granted)] if len(granted) < len(self.programs) else None
        if self.known is None:
            free = self.free - units
            return [run.id for lane in self.lanes.values() for run in runs_woken(free, lane, still)], []
        known = self.known.after(units)
        line = Line(self.free - units, self.lanes, still, self.passed)
        woken, turns = serve_in_turn(line, known.rated, known.opens)
        writes = list(take(self.name, known.rated.rate, units))
        return woken, [*writes, *(write_turns({self.name: turns}) if turns != known.rated.turns else ())]


async def serve(
    transaction: Transaction,
    freed: Freed,
    writes: Iterable[str] = (),
    places: Mapping[Incarnation, Places] = MappingProxyType({}),
) -> list[str]:
    """Send the writes and find the next in line; return the writes that remain. Freed things must be locked.

    `places` are those of jobs with locked gates. If only places were freed, nothing is sent, and all writes are
    returned. If the database refuses, beats serve later, the lines of jobs as a part of a move.
    """
    transaction.woke = transaction.wakes
    if not transaction.wakes:
        return [*writes, *(sql(_WAKE_LATER, job) for job in sorted({*freed.places, *(job for job, _ in freed.keys)}))]
    writes = [*writes, *wake(freed.places, places)]
    if not freed.keys and not freed.semaphores:
        return writes
    of_keys = _look_at_keys(freed.keys)
    lines, answers = await look(transaction, freed.semaphores, [*writes, *of_keys])
    served = list(_wake_keys(freed.keys, *answers[len(writes) : len(writes) + 2])) if of_keys else []
    for line in lines:
        served += serve_line(line, line.grants())
    return served


async def sweep(transaction: Transaction, stuck: Iterable[tuple[str, Lane]], ready: frozenset[Lane]) -> None:
    """Serve a few semaphores for which a run waits although its units are free; no lock is waited for.

    Lanes in which something is ready have had their turn.
    """
    names = sorted({name for name, lane in stuck if lane not in ready})
    (ours,) = await transaction.ask(sql(TRY_LOCK, names))
    lines, _ = await look(transaction, [row[0] for row in ours.rows], busy=ready)
    stuck_runs, served = [(runs, writes) for line in lines for runs, writes in [line.next_runs(())] if runs], 0
    for statement in (statement for runs, writes in stuck_runs for statement in [*writes, *_wake(runs)]):
        try:
            served += len(await transaction.ask(statement))
        except FAULTS as fault:  # the server undid this statement alone
            if not is_refusal(fault):
                raise
        if served == MOST_SWEPT:
            break
    await transaction.commit()


async def look(
    transaction: Transaction, names: Iterable[str], before: Sequence[str] = (), busy: frozenset[Lane] = frozenset()
) -> tuple[list[SemaphoreLine], list[Answer]]:
    """Return the lines of semaphores, and the answers to `before`. Runs are read only if units are free.

    Runs of busy lanes are left out.
    """
    names = sorted(set(names))
    looks = [sql(_FREE, names)] if names else []
    for name in names:
        looks += [sql(_PROGRAMS, name, MOST_SERVED), sql(_LANES, line_of(name))]
    answers = await transaction.ask(*before, *looks)
    if not names:
        return [], answers
    free, *of_names = answers[len(before) :]
    known = {name: (limit - used, granted) for name, limit, granted, used, *_ in free.rows}
    rates = await known_of(transaction, [(row[0], row[4:]) for row in free.rows])
    lines, heads = [], []
    for number, name in enumerate(names):
        programs, lanes = of_names[2 * number : 2 * number + 2]
        if name in rates or (name in known and known[name][0] > 0):
            places = [LinePlace(*row) for row in programs.rows]
            lines.append(SemaphoreLine(name, *known[name], places, known=rates.get(name)))
            heads.append([lane for _, lane in lanes.rows if lane and (name in rates or lane not in busy)])
    return await _with_heads(transaction, lines, heads), answers


async def _with_heads(
    transaction: Transaction, lines: Sequence[SemaphoreLine], lanes: Sequence[Sequence[Lane]]
) -> list[SemaphoreLine]:
    asked = [
        sql(_HEADS, line_of(line.name), lane, min(max(line.free, 1), MOST_SERVED))
        for line, some in zip(lines, lanes, strict=True)
        for lane in some
    ]
    rated = sorted({lane for line, some in zip(lines, lanes, strict=True) if line.known for lane in some})
    asked += [sql(_FIRST_READY, lane) for lane in rated]
    pauses = [PAUSED] if any(line.programs and some for line, some in zip(lines, lanes, strict=True)) else []
    answers = iter(await transaction.ask(*pauses, *asked) if asked else ())
    paused = paused_queues(next(answers)) if pauses else frozenset[str]()
    found = [
        line._replace(
            paused=paused, lanes={lane: [_place(row, line.name) for row in next(answers).rows] for lane in some}
        )
        for line, some in zip(lines, lanes, strict=True)
    ]
    ready = {lane: rank for lane in rated for (rank,) in next(answers).rows}
    return [line if line.known is None else _without_passed(line, ready) for line in found]


def _without_passed(line: SemaphoreLine, ready: Mapping[Lane, int]) -> SemaphoreLine:
    """Return the line without the lanes that have an earlier ready run: a free unit is for that run."""
    passed = {lane for lane, runs in line.lanes.items() if runs and lane in ready and ready[lane] <= runs[0].rank}
    lanes = {lane: runs for lane, runs in line.lanes.items() if lane not in passed}
    return line._replace(lanes=lanes, passed=bool(passed))


def _place(row: tuple[int, str, str | None], name: str) -> LinePlace:
    """Return the place of a run in line, with the number of units that its job wants now."""
    rank, run_id, semaphores = row
    return LinePlace(rank, run_id, names_in(semaphores).get(name, 1))


def serve_line(line: SemaphoreLine, programs: Sequence[LinePlace]) -> Iterator[str]:
    """Give units to these programs, each with a token of its own, and then wake the runs whose turn it is."""
    for number, program in enumerate(programs, line.granted + 1):
        yield sql("UPDATE tokimori_permits SET token = %s WHERE id = %s", number, program.id)
    if programs:
        granted = line.granted + len(programs)
        yield sql("UPDATE tokimori_semaphores SET granted = %s WHERE name = %s", granted, line.name)
    runs, writes = line.next_runs(programs)
    yield from [*writes, *_wake(runs)]


async def go_on(transaction: Transaction, names: Sequence[str]) -> list[str]:
    """Return the writes that serve these lines, which go on because of a rate. What is locked stays as it is."""
    (ours,) = await transaction.ask(sql(TRY_LOCK, list(names)))
    found, _ = await look(transaction, [row[0] for row in ours.rows])
    return [write for line in found for write in serve_line(line, line.grants())]


def _wake(runs: Sequence[str]) -> Iterator[str]:
    if runs:
        yield sql(_WAKE, list(runs))


def _look_at_keys(keys: Iterable[Key]) -> list[str]:
    if not keys:
        return []
    limits = f"SELECT incarnation, COALESCE(max_per_key, 1) FROM tokimori_jobs {BY_KEY} WHERE incarnation IN (%s)"
    return [running_of_keys(keys), sql(limits, sorted({incarnation for incarnation, _ in keys}))]


def _wake_keys(keys: Iterable[Key], counted: Answer, limits: Answer) -> Iterator[str]:
    running, most = counts_of(counted), dict(limits.rows)
    for incarnation, key in sorted(keys):
        places = room(running.get((incarnation, key), 0), most.get(incarnation, 0), MOST_SERVED)
        if incarnation in most and places:
            yield sql(_WAKE_KEY, incarnation, KEY_LINE, key, places)
