"""Semaphores as people and programs ask for them: statements on semaphores and lines."""

from tokimori.clock import Moment
from tokimori.model.ids import NodeId, PermitId
from tokimori.model.semaphores import DEFAULT_LIMIT, line_of
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Answer, Grant, InLine, NodeGone, Semaphore, Wish
from tokimori.stores.mysql import lines
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, insert, sql
from tokimori.stores.rows import PERMIT, permit_row, semaphores_of
from tokimori.stores.rules.claiming import joining
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore
from tokimori.stores.rules.turns import Freed

_IN_LINE = f"""(
    SELECT COUNT(*) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = s.name AND token IS NULL
) + (
    SELECT COUNT(*) FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked)
    WHERE blocked_on = CONCAT('{line_of("")}', s.name))"""
_SEMAPHORES = f"""
SELECT name, "limit", {lines.USED}, LEAST({MOST_COUNTED}, {_IN_LINE}) FROM tokimori_semaphores s {BY_KEY}"""
_HOLDERS = f"""
SELECT {PERMIT} FROM (
    SELECT {PERMIT}, ROW_NUMBER() OVER (PARTITION BY semaphore ORDER BY since, id) AS place
    FROM tokimori_permits FORCE INDEX (tokimori_permits_line) WHERE semaphore IN (%s) AND token IS NOT NULL
) held WHERE place <= {MOST_HOLDERS} ORDER BY semaphore, since, id"""
_WEIGHTS = """
SELECT COALESCE(MAX(weight), 0) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
WHERE semaphore = %s AND token IS NULL"""
_JOBS_IN_LINE = """
SELECT DISTINCT j.semaphores FROM tokimori_runs r FORCE INDEX (tokimori_runs_blocked)
JOIN tokimori_jobs j ON j.incarnation = r.incarnation WHERE r.blocked_on = %s"""
_AHEAD = f"""
SELECT LEAST({MOST_COUNTED}, (
    SELECT COUNT(*) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = p.semaphore AND token IS NULL AND ("rank" < p."rank" OR ("rank" = p."rank" AND id < p.id))
) + (
    SELECT COUNT(*) FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked)
    WHERE blocked_on = %s AND "rank" < p."rank")), token
FROM tokimori_permits p {BY_KEY} WHERE id = %s"""
# Runs of paused queues keep no program waiting.
_HINDERED = f"""
SELECT EXISTS (
    SELECT 1 FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = p.semaphore AND token IS NULL AND ("rank" < p."rank" OR ("rank" = p."rank" AND id < p.id))
) OR EXISTS (
    SELECT 1 FROM tokimori_runs r FORCE INDEX (tokimori_runs_blocked)
    WHERE r.blocked_on = %s AND r."rank" < p."rank" AND NOT EXISTS (
        SELECT 1 FROM tokimori_pauses WHERE queue IN ('*', SUBSTRING_INDEX(r.lane, '|', 1))))
FROM tokimori_permits p {BY_KEY} WHERE id = %s"""


async def list_semaphores(db: Sessions, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    return await _read(db, sql("WHERE name > %s ORDER BY name LIMIT %s", after, limit))


async def get_semaphore(db: Sessions, name: str) -> Semaphore:
    return existing(next(iter(await _read(db, sql("WHERE name = %s", name))), None), no_semaphore(name))


async def _read(db: Sessions, which: str) -> list[Semaphore]:
    rows = await db.rows(f"{_SEMAPHORES} {which}")
    held = await db.rows(sql(_HOLDERS, [row[0] for row in rows])) if rows else []
    return semaphores_of(rows, held)


async def put_semaphore(transaction: Transaction, name: str, limit: int, now: Moment) -> None:
    *_, programs, jobs = await transaction.ask(
        *lines.made([name]), sql(_WEIGHTS, name), sql(_JOBS_IN_LINE, line_of(name))
    )
    weights = [lines.names_in(semaphores).get(name, 1) for (semaphores,) in jobs.rows]
    check_lowered(name, limit, max([programs.rows[0][0], *weights]))
    change = sql('UPDATE tokimori_semaphores SET "limit" = %s WHERE name = %s', limit, name)
    await transaction.commit(*await lines.serve(transaction, Freed(semaphores={name}), [change]))


async def delete_semaphore(transaction: Transaction, name: str) -> None:
    _, permit, run = await transaction.ask(
        lines.lock([name]),
        sql("SELECT 1 FROM tokimori_permits FORCE INDEX (tokimori_permits_line) WHERE semaphore = %s LIMIT 1", name),
        sql("SELECT 1 FROM tokimori_runs WHERE blocked_on = %s LIMIT 1", line_of(name)),
    )
    if permit.rows or run.rows:
        raise in_use(name)
    await transaction.commit(
        sql(
            """INSERT INTO tokimori_tokens (one, newest) SELECT true, granted FROM tokimori_semaphores WHERE name = %s
            ON DUPLICATE KEY UPDATE newest = GREATEST(newest, VALUES(newest))""",
            name,
        ),
        sql("DELETE FROM tokimori_semaphores WHERE name = %s", name),
    )


async def acquire(transaction: Transaction, wish: Wish, now: Moment) -> Answer:
    alive = await transaction.ask(sql("SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive'", wish.node))
    if not alive[0].rows:
        return NodeGone()
    return await _still_waits(transaction, wish) or await _acquire(transaction, wish, now)


async def _still_waits(transaction: Transaction, wish: Wish) -> InLine | None:
    """Who stands in line is served by whoever frees units: it looks without a lock whether there is more to do.

    Many programs that asked for the lock again and again would leave it to no claim, which only tries.
    """
    place, hindered, free = await transaction.ask(
        sql(_AHEAD, line_of(wish.semaphore), wish.id),
        sql(_HINDERED, line_of(wish.semaphore), wish.id),
        sql(f'SELECT "limit" - {lines.USED} FROM tokimori_semaphores s {BY_KEY} WHERE name = %s', wish.semaphore),
    )
    for ahead, token in place.rows:
        units = free.rows[0][0] if free.rows else 0
        if token is None and (hindered.rows[0][0] or units < wish.weight):
            return InLine(ahead=ahead)
    return None


async def _acquire(transaction: Transaction, wish: Wish, now: Moment) -> Answer:
    """The node first: it lives as long as this takes. Then the semaphore, which is made where there is none."""
    limit = DEFAULT_LIMIT if wish.limit is None else wish.limit
    alive, _, semaphore, permit = await transaction.ask(
        sql(f"SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive' {SHARED}", wish.node),
        *lines.made([wish.semaphore], limit),
        sql('SELECT "limit" FROM tokimori_semaphores WHERE name = %s', wish.semaphore),
        sql("SELECT token FROM tokimori_permits WHERE id = %s", wish.id),
    )
    if not alive.rows:
        return NodeGone()
    if permit.rows and permit.rows[0][0] is not None:
        return Grant(token=permit.rows[0][0])
    join: list[str] = []
    if not permit.rows:
        _, place = joining(wish, semaphore.rows[0][0], now)
        join += insert("INSERT", "tokimori_permits", PERMIT, [permit_row(place)])
    found, _ = await lines.look(transaction, [wish.semaphore], join)
    turns = [(line, granted) for line in found if (granted := line.grants())]
    served = [write for turn in turns for write in lines.serve_line(*turn)]
    *_, told = await transaction.commit(*served, sql(_AHEAD, line_of(wish.semaphore), wish.id))
    ((ahead, token),) = told.rows
    return InLine(ahead=ahead) if token is None else Grant(token=token)


async def release(transaction: Transaction, permit: PermitId, node: NodeId, now: Moment) -> bool:
    of_node = "id = %s AND node_id = %s AND run_id IS NULL"
    locked, gone = await transaction.ask(
        lines.lock(permits=[permit]), sql(f"DELETE FROM tokimori_permits WHERE {of_node}", permit, node)
    )
    if not gone.changed:
        return False
    freed = Freed(semaphores={name for (name,) in locked.rows})
    await transaction.commit(*await lines.serve(transaction, freed))
    return True
