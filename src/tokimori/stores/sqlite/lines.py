"""Lines for places and units, rates of semaphores, and paused queues: waiting runs, and the next ones."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate, Taken, Window, opens_at, stored_rate
from tokimori.model.ids import Incarnation, Lane, NodeId, RunId
from tokimori.model.lanes import Pause, open_lanes
from tokimori.model.run import NEVER
from tokimori.model.semaphores import QUEUE_RATES, is_rate_alone, ledger_of
from tokimori.stores.rows import PAUSE, marks, pause_of, pause_row
from tokimori.stores.rules.lines import (
    MOST_SERVED,
    MOST_SWEPT,
    Freed,
    LinePlace,
    Turn,
    programs_served,
    room,
    runs_woken,
)
from tokimori.stores.rules.rates import Line, Opens, Rated, Turns, serve_in_turn


def add_pause(db: sqlite3.Connection, pause: Pause) -> Pause:
    statement = f"INSERT INTO tokimori_pauses ({PAUSE}) VALUES ({marks(PAUSE)}) ON CONFLICT DO NOTHING"
    db.execute(statement, pause_row(pause))
    kept = db.execute(f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue = ?", (pause.queue,))
    return pause_of(kept.fetchone())


def paused_queues(db: sqlite3.Connection) -> set[str]:
    """Return the paused queues."""
    return {queue for (queue,) in db.execute("SELECT queue FROM tokimori_pauses")}


def stops_and_rates(db: sqlite3.Connection) -> tuple[set[str], set[str]]:
    """Return the paused queues, and the semaphores that are rates of queues."""
    found = {name for (name,) in db.execute(_STOPS_AND_RATES, QUEUE_RATES)}
    rates = {name for name in found if is_rate_alone(name)}
    return found - rates, rates


_STOPS_AND_RATES = """
SELECT queue FROM tokimori_pauses UNION ALL
SELECT name FROM tokimori_semaphores WHERE name > ? AND name < ? AND rate IS NOT NULL"""
TURN = (
    "incarnation, state, concurrency_key, blocked_on, "
    "(SELECT semaphores FROM tokimori_jobs WHERE incarnation = tokimori_runs.incarnation)"
)
MOST_LOOKED_AT = 1000
"""Semaphores that one sweep looks at."""
MOST_GOING_ON = 100
"""Semaphores whose lines go on by one promotion."""
_WAKE = """
UPDATE tokimori_runs SET state = 'ready' WHERE id IN (
    SELECT id FROM tokimori_runs WHERE incarnation = ? AND state = 'blocked' AND blocked_on IS NULL
    ORDER BY "rank", id LIMIT ?)"""
_WAKE_LATER = """
INSERT INTO tokimori_moves SELECT incarnation, '', (
    SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running'),
    NULL, '[]', NULL, 0, NULL
FROM tokimori_jobs j WHERE incarnation = ?
ON CONFLICT (incarnation) DO UPDATE SET origin = '', woken = excluded.woken"""
_OF_KEY = """
FROM tokimori_runs WHERE incarnation = ? AND concurrency_key = ? AND state = 'blocked' AND blocked_on = 'key'
ORDER BY "rank", id LIMIT ?"""
_RUNS = """
SELECT r."rank", r.id, coalesce((SELECT value ->> 1 FROM json_each(j.semaphores) WHERE value ->> 0 = ?1), 1)
FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
WHERE r.state = 'blocked' AND r.blocked_on = 'semaphore:' || ?1 AND r.lane = ?2 ORDER BY r."rank", r.id"""
_PROGRAMS = 'SELECT "rank", id, weight FROM tokimori_permits WHERE semaphore = ? AND token IS NULL ORDER BY "rank", id'
_UNITS = """
SELECT "limit" - (SELECT coalesce(sum(weight), 0) FROM tokimori_permits WHERE semaphore = name AND token IS NOT NULL)
FROM tokimori_semaphores WHERE name = ?"""
UNITS = _UNITS.replace("FROM tokimori_semaphores", ", rate, wakes, turn, kept, woken, until FROM tokimori_semaphores")
"""Free units of a semaphore, its rate, and its turns."""
_OLDER = """SELECT 1 FROM tokimori_runs WHERE state = 'ready' AND lane = ? AND "rank" <= ? LIMIT 1"""
_COUNT_GRANT = """
UPDATE tokimori_semaphores SET granted = 1 + max(granted, (SELECT coalesce(max(newest), 0) FROM tokimori_tokens))
WHERE name = ?"""


def each(column: str, where: str, selected: str = "value", first: str = "") -> str:
    """Return the statement that walks an index of runs from one distinct value to the next, from the `first` on."""
    return f"""
WITH RECURSIVE found (value) AS (
    SELECT min({column}) FROM tokimori_runs WHERE {where} {first}
    UNION ALL
    SELECT (SELECT min({column}) FROM tokimori_runs WHERE {where} AND {column} > found.value)
    FROM found WHERE found.value IS NOT NULL)
SELECT {selected} FROM found WHERE value IS NOT NULL"""


LANES = each("lane", "state = 'blocked' AND blocked_on = 'semaphore:' || ?1")
_NAME = "substr(value, length('semaphore:') + 1) AS named"
# Not a bound of each step, where it is the second one: SQLite would read all rows behind it.
_FIRST = "AND blocked_on >= 'semaphore:'"
_NAMES = f"""
SELECT named FROM ({each("blocked_on", "state = 'blocked'", _NAME, _FIRST)} LIMIT ?)
WHERE ({_UNITS.replace("?", "named")}) > 0"""


def turn_in(row: Sequence[Any]) -> Turn:
    """Return the turn in the columns `TURN`."""
    incarnation, state, key, blocked_on, semaphores = row
    return Turn(incarnation, state, key, blocked_on, [name for name, _ in units_in(semaphores)])


def units_in(semaphores: str | None) -> list[tuple[str, int]]:
    """Return names and weights in a job's column of semaphores, by name."""
    return [] if semaphores is None else [(name, weight) for name, weight in json.loads(semaphores)]


def count_active(db: sqlite3.Connection, incarnation: Incarnation) -> int:
    """Return how many runs of the job want a place, or have one."""
    active = "SELECT count(*) FROM tokimori_runs WHERE incarnation = ? AND state <> 'held' AND due <> ?"
    return int(db.execute(active, (incarnation, NEVER)).fetchone()[0])


def give_back(db: sqlite3.Connection, runs: Sequence[RunId]) -> set[str]:
    """Remove the permits of these runs; return the semaphores with freed units."""
    held = "DELETE FROM tokimori_permits WHERE run_id IN (SELECT value FROM json_each(?)) RETURNING semaphore"
    return {name for (name,) in db.execute(held, (json.dumps(runs),))}


def serve(db: sqlite3.Connection, freed: Freed) -> None:
    """Serve the lines of free places and units: wake runs, grant programs. Paused jobs' runs are claimed later."""
    if freed.places:
        _serve_limits(db, freed.places)
    for incarnation, key in sorted(freed.keys):
        _serve_key(db, incarnation, key)
    for name in sorted(freed.semaphores):
        serve_semaphore(db, name)


def _serve_limits(db: sqlite3.Connection, places: Counter[Incarnation]) -> None:
    waiting = db.execute(
        """
        SELECT incarnation, max_running, (
            SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running')
        FROM tokimori_jobs j WHERE incarnation IN (SELECT value FROM json_each(?)) AND EXISTS (
            SELECT 1 FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'blocked' AND blocked_on IS NULL)
        """,
        (json.dumps(list(places)),),
    ).fetchall()
    for incarnation, limit, running in waiting:
        _serve_job(db, incarnation, _WAKE, (incarnation, room(running, limit, places[incarnation])))


def _serve_key(db: sqlite3.Connection, incarnation: Incarnation, key: str) -> None:
    limit = db.execute("SELECT coalesce(max_per_key, 1) FROM tokimori_jobs WHERE incarnation = ?", (incarnation,))
    for (most,) in limit.fetchall():
        wake = f"UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL WHERE id IN (SELECT id {_OF_KEY})"
        _serve_job(db, incarnation, wake, (incarnation, key, room(running_of_key(db, incarnation, key), most, most)))


def _serve_job(db: sqlite3.Connection, job: Incarnation, wake: str, values: Sequence[object]) -> None:
    """Wake the runs of a job. If the database refuses that, note the job: later beats move its runs."""
    if not _try_statement(db, wake, values):
        db.execute(_WAKE_LATER, (job,))


def _try_statement(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> bool:
    """Carry out a statement, and return if the database accepted it. A refusal undoes this statement alone."""
    try:
        db.execute(statement, values)
    except sqlite3.Error:
        if not db.in_transaction:
            raise
        return False
    return True


def running_of_key(db: sqlite3.Connection, incarnation: Incarnation, key: str) -> int:
    """Return how many runs of the job and the key run."""
    running = "SELECT count(*) FROM tokimori_runs WHERE incarnation = ? AND concurrency_key = ? AND state = 'running'"
    return int(db.execute(running, (incarnation, key)).fetchone()[0])


def head_of_key(db: sqlite3.Connection, incarnation: Incarnation, key: str) -> LinePlace | None:
    """Return the first run of a job that waits for this key."""
    return next(map(LinePlace._make, db.execute(f'SELECT "rank", id, 1 {_OF_KEY}', (incarnation, key, 1))), None)


def serve_semaphore(db: sqlite3.Connection, name: str) -> None:
    """Grant the programs and wake the runs whose turn it is."""
    grant_programs(db, name)
    wake_runs(db, name)


def grant_programs(db: sqlite3.Connection, name: str) -> bool:
    """Grant units to the programs that are next; return if there are any. Runs of paused queues do not block them."""
    if first_program(db, name) is None:
        return False
    lanes = open_lanes(lanes_in_line(db, name), paused_queues(db))
    heads = filter(None, [head_of(db, name, lane) for lane in lanes])
    with closing(db.execute(_PROGRAMS, (name,))) as rows:
        free, rate, *turns = _units_of(db, name)
        free = free if rate is None else min(free, rated(db, name, rate, Turns(*turns)).free)
        served = programs_served(free, map(LinePlace._make, rows), min(heads, default=None))
    if rate is not None and served:
        served = served[:1] if rate.smooth else served
        take(db, name, sum(program.weight for program in served))
    for program in served:
        db.execute(_COUNT_GRANT, (name,))
        db.execute(
            """UPDATE tokimori_permits SET token = (SELECT granted FROM tokimori_semaphores WHERE name = semaphore)
            WHERE id = ?""",
            (program.id,),
        )
    return bool(served)


def wake_runs(db: sqlite3.Connection, name: str, *, by_rate: bool = False) -> bool:
    """Make the next runs ready; return if the database took any. `by_rate`: it has a rate, and somebody may wait."""
    lanes = lanes_in_line(db, name)
    if not lanes and not by_rate:
        return False
    free, rate, *turns = _units_of(db, name)
    if rate is None:
        return _wake(db, _next_runs(db, name, free, lanes))
    return _wake(db, _next_in_turn(db, name, free, rated(db, name, rate, Turns(*turns)), lanes))


def _units_of(db: sqlite3.Connection, name: str) -> tuple[Any, ...]:
    """Return the free units of a semaphore, its rate and its turns. After a lower limit they may be below 0."""
    free, rate, *turns = next(db.execute(UNITS, (name,)), (0, None))
    return free, stored_rate(rate), *turns


def _next_in_turn(db: sqlite3.Connection, name: str, free: int, rated: Rated, lanes: Sequence[Lane]) -> list[str]:
    """Choose the runs that the rate admits now, store the turns, and return the ids of these runs."""
    heads = [(lane, head) for lane in lanes if (head := head_of(db, name, lane)) is not None]
    here = [lane for lane, head in heads if not db.execute(_OLDER, (lane, head.rank)).fetchone()]
    with ExitStack() as stack:
        rows = [stack.enter_context(closing(db.execute(_RUNS, (name, lane)))) for lane in here]
        runs = {lane: map(LinePlace._make, cursor) for lane, cursor in zip(here, rows, strict=True)}
        line = Line(free, runs, first_program(db, name), passed=len(here) < len(heads))
        woken, turns = serve_in_turn(line, rated, opens_of(db, name, rated))
    write_turns(db, name, rated.turns, turns)
    return woken


def go_on(db: sqlite3.Connection, now: Moment) -> int:
    """Serve the lines that a rate lets continue by now; return their number."""
    due = "SELECT name FROM tokimori_semaphores WHERE wakes <= ? ORDER BY wakes LIMIT ?"
    names = db.execute(due, (now, MOST_GOING_ON)).fetchall()
    for (name,) in names:
        grant_programs(db, name)
        wake_runs(db, name, by_rate=True)
    return len(names)


def _wake(db: sqlite3.Connection, runs: Sequence[str]) -> bool:
    """Make the runs ready. Return if the database accepted any. A later sweep tries the others again."""
    wake = "UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL WHERE id = ?"
    return sum(_try_statement(db, wake, (run_id,)) for run_id in runs) > 0


def _next_runs(db: sqlite3.Connection, name: str, free: int, lanes: Sequence[Lane]) -> list[str]:
    """Return the ids of the runs that the free units are for, in these lanes of a line."""
    program, found = first_program(db, name), list[str]()
    for lane in lanes:
        with closing(db.execute(f"{_RUNS} LIMIT {MOST_SERVED}", (name, lane))) as rows:
            found += [place.id for place in runs_woken(free, map(LinePlace._make, rows), program)]
    return found


def free_units(db: sqlite3.Connection, name: str) -> int:
    """Return the free units: counted, so that a crash can't leak any. Below zero if the limit was lowered."""
    return next((int(units) for (units,) in db.execute(_UNITS, (name,))), 0)


def first_program(db: sqlite3.Connection, name: str) -> LinePlace | None:
    """Return the first program that waits for a semaphore."""
    return next(map(LinePlace._make, db.execute(f"{_PROGRAMS} LIMIT 1", (name,))), None)


def lanes_in_line(db: sqlite3.Connection, name: str) -> list[Lane]:
    """Return the lanes with runs that wait for a semaphore."""
    return [Lane(lane) for (lane,) in db.execute(LANES, (name,))]


def head_of(db: sqlite3.Connection, name: str, lane: Lane) -> LinePlace | None:
    """Return the first run of a lane that waits for a semaphore."""
    return next(map(LinePlace._make, db.execute(f"{_RUNS} LIMIT 1", (name, lane))), None)


def drop_permits(db: sqlite3.Connection, node: NodeId) -> None:
    """Drop the permits and places in line of a dead node's programs; its runs keep theirs until they are settled."""
    lost = "DELETE FROM tokimori_permits WHERE node_id = ? AND run_id IS NULL RETURNING semaphore"
    serve(db, Freed(semaphores={name for (name,) in db.execute(lost, (node,))}))


def sweep(db: sqlite3.Connection) -> None:
    """Serve a few semaphores for which a run waits although its units are free, and no run of its lane is ready."""
    ready, served = "SELECT 1 FROM tokimori_runs WHERE state = 'ready' AND lane = ?", 0
    for (name,) in db.execute(_NAMES, (MOST_LOOKED_AT,)).fetchall():
        free, rate, *_ = _units_of(db, name)
        lanes = [lane for lane in lanes_in_line(db, name) if rate or not db.execute(ready, (lane,)).fetchone()]
        served += wake_runs(db, name) if rate else bool(lanes) and _wake(db, _next_runs(db, name, free, lanes))
        if served == MOST_SWEPT:
            return


_ROW = "SELECT rate, wakes, turn, kept, woken, until FROM tokimori_semaphores WHERE name = ?"
_NEWEST = """
SELECT moment, units, total - coalesce(
    (SELECT total FROM tokimori_taken WHERE semaphore = ?1 AND moment <= ?2 ORDER BY moment DESC LIMIT 1),
    (SELECT total - units FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment LIMIT 1))
FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment DESC LIMIT 1"""
_CUT = """
INSERT INTO tokimori_taken SELECT semaphore, ?2, sum(units), max(total) FROM tokimori_taken
WHERE semaphore = ?1 AND moment >= ?2 GROUP BY semaphore
ON CONFLICT DO UPDATE SET units = excluded.units, total = excluded.total"""
_TAKE = """
INSERT INTO tokimori_taken SELECT ?1, ?2, ?3, ?3 + coalesce(
    (SELECT total FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment DESC LIMIT 1), 0) WHERE true
ON CONFLICT DO UPDATE SET units = units + excluded.units, total = excluded.total"""
_IN_THE_WAY = """
SELECT moment FROM tokimori_taken WHERE semaphore = ?1 AND moment > ?2 AND total >= ?3 + (
    SELECT total FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment DESC LIMIT 1) ORDER BY moment LIMIT 1"""


def now_of(db: sqlite3.Connection) -> Moment:
    """Return the store's time."""
    return Moment(db.execute("SELECT store_now()").fetchone()[0])


def rated_of(db: sqlite3.Connection, name: str, *, mends: bool = True) -> Rated | None:
    """Return the rate of a semaphore, if it has one. `mends`: units dated ahead count as taken now."""
    row = db.execute(_ROW, (name,)).fetchone()
    rate = None if row is None else stored_rate(row[0])
    return None if rate is None else rated(db, name, rate, Turns(*row[1:]), mends=mends)


def rated(db: sqlite3.Connection, name: str, rate: ClaimRate, turns: Turns, *, mends: bool = True) -> Rated:
    """Return the rate of a semaphore with these turns."""
    now, ledger = now_of(db), ledger_of(name)
    found = db.execute(_NEWEST, (ledger, now - rate.period)).fetchone()
    if found is not None and found[0] > now and mends:
        db.execute(_CUT, (ledger, now))
        db.execute("DELETE FROM tokimori_taken WHERE semaphore = ? AND moment > ?", (ledger, now))
        found = db.execute(_NEWEST, (ledger, now - rate.period)).fetchone()
    window = Window() if found is None else Window(found[2], Taken(found[0], found[1]))
    return Rated(rate, window, now, turns)


def take(db: sqlite3.Connection, name: str, units: int) -> None:
    """Write the units taken now, and forget those that count no more."""
    found = rated_of(db, name)
    if found is not None:
        db.execute(_TAKE, (ledger_of(name), found.now, units))
        old = (ledger_of(name), found.now - found.rate.period)
        db.execute("DELETE FROM tokimori_taken WHERE semaphore = ? AND moment <= ?", old)


def opens_of(db: sqlite3.Connection, name: str, found: Rated) -> Opens:
    """Return the function that says when units fit."""
    return partial(_opens, db, ledger_of(name), found)


def _opens(db: sqlite3.Connection, ledger: str, found: Rated, weight: int, before: int) -> Moment:
    rate, window, now, _ = found
    wanted, in_the_way = weight + before, None
    if wanted > rate.units:
        in_the_way = (now,)
    elif window.used + wanted > rate.units:
        in_the_way = db.execute(_IN_THE_WAY, (ledger, now - rate.period, wanted - rate.units)).fetchone()
    return opens_at(rate, window, in_the_way and in_the_way[0], now, before)


def write_turns(db: sqlite3.Connection, name: str, was: Turns | None, turns: Turns) -> None:
    """Write the turns, if they have changed."""
    if turns != was:
        db.execute(
            "UPDATE tokimori_semaphores SET wakes = ?, turn = ?, kept = ?, woken = ?, until = ? WHERE name = ?",
            (*turns, name),
        )
