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
from tokimori.model.semaphores import DEFAULT_LIMIT, KEY_LINE, line_of
from tokimori.stores.mysql.faults import FAULTS, is_refusal
from tokimori.stores.mysql.limits import Places, wake
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, insert, sql
from tokimori.stores.rows import PAUSE, pause_of, pause_row
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

_GATE = ""
"""Row without a queue: claims share its lock, a pause holds it alone."""
_INSERT_GATE = "INSERT INTO tokimori_pauses (queue, since) VALUES ('', 0)"
MAKE_GATE = _INSERT_GATE.replace("INSERT", "INSERT IGNORE")
PAUSED = "SELECT queue FROM tokimori_pauses"
SHARED_PAUSED = f"{PAUSED} {SHARED} SKIP LOCKED"
"""The same until the claim ends; without the gate while a pause is under way, as a claim waits for no lock."""


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
SELECT name, "limit" FROM tokimori_semaphores {BY_KEY} WHERE name IN (%s) ORDER BY name FOR UPDATE SKIP LOCKED"""
USED = """(
    SELECT CAST(COALESCE(SUM(weight), 0) AS SIGNED) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = s.name AND token IS NOT NULL)"""
"""Units that are held of a semaphore `s`."""
_FREE = f"""
SELECT name, "limit", GREATEST(granted, COALESCE((SELECT newest FROM tokimori_tokens WHERE one = true), 0)), {USED}
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
    rows = [(name, limit, 0) for name in sorted(names)]
    return insert("INSERT", "tokimori_semaphores", 'name, "limit", granted', rows, same)


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

    Runs of `paused` queues block no program.
    """

    name: str
    free: int
    granted: int
    programs: Sequence[LinePlace]
    lanes: Mapping[Lane, Sequence[LinePlace]] = MappingProxyType({})
    paused: frozenset[str] = frozenset()

    @property
    def first_run(self) -> LinePlace | None:
        """Return the first run of all lanes that are not paused."""
        lanes = open_lanes(self.lanes, self.paused)
        return min((self.lanes[lane][0] for lane in lanes if self.lanes[lane]), default=None)

    def grants(self) -> list[LinePlace]:
        """Return the programs that are next."""
        return programs_served(self.free, self.programs, self.first_run)

    def woken(self, granted: Sequence[LinePlace]) -> list[str]:
        """Return the runs that are next after that."""
        free = self.free - sum(program.weight for program in granted)
        still = self.programs[len(granted)] if len(granted) < len(self.programs) else None
        return [run.id for lane in self.lanes.values() for run in runs_woken(free, lane, still)]


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
    lines, _ = await look(transaction, [name for name, _ in ours.rows], busy=ready)
    woken = [runs for line in lines if (runs := line.woken(()))]
    served = 0
    for statement in (statement for runs in woken for statement in _wake(runs)):
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
    known = {name: (limit - used, granted) for name, limit, granted, used in free.rows}
    lines, heads = [], []
    for number, name in enumerate(names):
        programs, lanes = of_names[2 * number : 2 * number + 2]
        if name in known and known[name][0] > 0:
            lines.append(SemaphoreLine(name, *known[name], [LinePlace(*row) for row in programs.rows]))
            heads.append([lane for _, lane in lanes.rows if lane is not None and lane not in busy])
    return await _with_heads(transaction, lines, heads), answers


async def _with_heads(
    transaction: Transaction, lines: Sequence[SemaphoreLine], lanes: Sequence[Sequence[Lane]]
) -> list[SemaphoreLine]:
    asked = [
        sql(_HEADS, line_of(line.name), lane, min(line.free, MOST_SERVED))
        for line, some in zip(lines, lanes, strict=True)
        for lane in some
    ]
    pauses = [PAUSED] if any(line.programs and some for line, some in zip(lines, lanes, strict=True)) else []
    answers = iter(await transaction.ask(*pauses, *asked) if asked else ())
    paused = paused_queues(next(answers)) if pauses else frozenset[str]()
    return [
        line._replace(
            paused=paused, lanes={lane: [_place(row, line.name) for row in next(answers).rows] for lane in some}
        )
        for line, some in zip(lines, lanes, strict=True)
    ]


def _place(row: tuple[int, str, str | None], name: str) -> LinePlace:
    """Return a run's place, with the units that its job wants now."""
    rank, run_id, semaphores = row
    return LinePlace(rank, run_id, names_in(semaphores).get(name, 1))


def serve_line(line: SemaphoreLine, programs: Sequence[LinePlace]) -> Iterator[str]:
    """Give units to these programs, each with a token of its own, and then wake the runs whose turn it is."""
    for number, program in enumerate(programs, line.granted + 1):
        yield sql("UPDATE tokimori_permits SET token = %s WHERE id = %s", number, program.id)
    if programs:
        granted = line.granted + len(programs)
        yield sql("UPDATE tokimori_semaphores SET granted = %s WHERE name = %s", granted, line.name)
    yield from _wake(line.woken(programs))


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
