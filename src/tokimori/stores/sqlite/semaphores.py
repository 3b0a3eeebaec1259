"""Named semaphores for people and programs: statements on semaphores and permits."""

import sqlite3

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.ids import NodeId, PermitId
from tokimori.ports import semaphores as port
from tokimori.ports.nodes import NodeState
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Permit, Semaphore, UnitRequest
from tokimori.stores.rows import PERMIT, marks, permit_of, permit_row
from tokimori.stores.rules.claiming import joining
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore
from tokimori.stores.sqlite.lines import LANES, each, free_units, grant_programs, rated_of, serve_semaphore, wake_runs
from tokimori.stores.sqlite.nodes import state_of

_MAKE = 'INSERT INTO tokimori_semaphores (name, "limit", rate) VALUES (?, ?, ?)'
_CHANGED = """"limit" = excluded."limit", rate = excluded.rate, wakes = NULL, turn = NULL, kept = 0, woken = 0"""
_KEEP_NEWEST = """
INSERT INTO tokimori_tokens (one, newest) VALUES (1, ?)
ON CONFLICT (one) DO UPDATE SET newest = max(newest, excluded.newest)"""
_RUNS_WAIT = "FROM tokimori_runs WHERE state = 'blocked' AND blocked_on = 'semaphore:' || ?1"
_PROGRAMS_WAIT = "FROM tokimori_permits WHERE semaphore = ?1 AND token IS NULL"
_HELD = "FROM tokimori_permits WHERE semaphore = ?1 AND token IS NOT NULL"
_WAITING = f"""
SELECT (SELECT count(*) FROM (SELECT 1 {_RUNS_WAIT} LIMIT {MOST_COUNTED}))
    + (SELECT count(*) FROM (SELECT 1 {_PROGRAMS_WAIT} LIMIT {MOST_COUNTED}))"""
_AHEAD = f"""
SELECT (SELECT count(*) FROM (SELECT 1 FROM ({LANES}) l CROSS JOIN tokimori_runs WHERE state = 'blocked'
    AND blocked_on = 'semaphore:' || ?1 AND lane = l.value AND "rank" < ?2 LIMIT {MOST_COUNTED}))
    + (SELECT count(*) FROM (SELECT 1 {_PROGRAMS_WAIT} AND ("rank", id) < (?2, ?3) LIMIT {MOST_COUNTED}))"""
_HEAVIEST = f"""
SELECT coalesce(max(weight), 0) FROM (
    SELECT weight FROM tokimori_permits WHERE semaphore = ?1 AND token IS NULL UNION ALL
    SELECT (SELECT value ->> 1 FROM json_each(j.semaphores) WHERE value ->> 0 = ?1) FROM tokimori_jobs j
    JOIN ({each("incarnation", "state = 'blocked'")}) o ON o.value = j.incarnation WHERE EXISTS (SELECT 1
        FROM tokimori_runs WHERE incarnation = o.value AND state = 'blocked' AND blocked_on = 'semaphore:' || ?1))"""
_HOLDERS = f"SELECT {PERMIT} {_HELD} ORDER BY since, id LIMIT {MOST_HOLDERS}"


def put_semaphore(db: sqlite3.Connection, name: str, limit: int, now: Moment, rate: ClaimRate | None = None) -> None:
    (heaviest,) = db.execute(_HEAVIEST, (name,)).fetchone()
    check_lowered(name, limit, heaviest, rate)
    stored = None if rate is None else rate.stored
    db.execute(f"{_MAKE} ON CONFLICT (name) DO UPDATE SET {_CHANGED}", (name, limit, stored))
    serve_semaphore(db, name)


def list_semaphores(db: sqlite3.Connection, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    names = db.execute("SELECT name FROM tokimori_semaphores WHERE name > ? ORDER BY name LIMIT ?", (after, limit))
    return [get_semaphore(db, name) for (name,) in names.fetchall()]


def get_semaphore(db: sqlite3.Connection, name: str) -> Semaphore:
    limit = existing(_limit_of(db, name), no_semaphore(name))
    (waiting,) = db.execute(_WAITING, (name,)).fetchone()
    rated = rated_of(db, name, mends=False)
    return Semaphore(
        name=name,
        limit=limit,
        used=limit - free_units(db, name),
        waiting=min(waiting, MOST_COUNTED),
        holders=tuple(map(permit_of, db.execute(_HOLDERS, (name,)))),
        rate=None if rated is None else rated.rate,
        taken=0 if rated is None else rated.window.used,
        wakes=None if rated is None else rated.turns.wakes,
    )


def _limit_of(db: sqlite3.Connection, name: str) -> int | None:
    rows = db.execute('SELECT "limit" FROM tokimori_semaphores WHERE name = ?', (name,))
    return next((int(limit) for (limit,) in rows), None)


def delete_semaphore(db: sqlite3.Connection, name: str) -> None:
    in_line = f"SELECT 1 {_RUNS_WAIT} UNION ALL SELECT 1 {_PROGRAMS_WAIT} UNION ALL SELECT 1 {_HELD} LIMIT 1"
    if db.execute(in_line, (name,)).fetchone() is not None:
        raise in_use(name)
    deleted = db.execute("DELETE FROM tokimori_semaphores WHERE name = ? RETURNING granted", (name,)).fetchall()
    db.executemany(_KEEP_NEWEST, deleted)
    db.execute("DELETE FROM tokimori_taken WHERE semaphore = ?", (name,))


def acquire(db: sqlite3.Connection, request: UnitRequest, now: Moment) -> port.Answer:
    if state_of(db, request.node) is not NodeState.ALIVE:
        return port.NodeGone()
    permit = _permit(db, request.id) or _join(db, request, now)
    if permit.token is None and grant_programs(db, request.semaphore):
        wake_runs(db, request.semaphore)
        permit = _permit(db, request.id) or permit
    if permit.token is None and rated_of(db, request.semaphore) is not None:
        wake_runs(db, request.semaphore, by_rate=True)
    if permit.token is not None:
        return port.Grant(token=permit.token)
    (ahead,) = db.execute(_AHEAD, (permit.semaphore, permit.rank, permit.id)).fetchone()
    return port.InLine(ahead=min(ahead, MOST_COUNTED))


def _permit(db: sqlite3.Connection, permit_id: PermitId) -> Permit | None:
    row = db.execute(f"SELECT {PERMIT} FROM tokimori_permits WHERE id = ?", (permit_id,)).fetchone()
    return None if row is None else permit_of(row)


def _join(db: sqlite3.Connection, request: UnitRequest, now: Moment) -> Permit:
    limit, place = joining(request, _limit_of(db, request.semaphore), now)
    db.execute(f"{_MAKE} ON CONFLICT DO NOTHING", (request.semaphore, limit, None))
    db.execute(f"INSERT INTO tokimori_permits ({PERMIT}) VALUES ({marks(PERMIT)})", permit_row(place))
    return place


def release(db: sqlite3.Connection, permit: PermitId, node: NodeId, now: Moment) -> bool:
    theirs = "DELETE FROM tokimori_permits WHERE id = ? AND node_id = ? AND run_id IS NULL RETURNING semaphore"
    given_back = db.execute(theirs, (permit, node)).fetchall()
    for (name,) in given_back:
        serve_semaphore(db, name)
    return bool(given_back)
