"""Named semaphores for people and programs: statements on semaphores and lines."""

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate, stored_rate
from tokimori.model.ids import NodeId, PermitId
from tokimori.model.lanes import open_lanes
from tokimori.model.semaphores import DEFAULT_LIMIT, ledger_of, line_of
from tokimori.ports import semaphores as port
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Grant, InLine, NodeGone, Semaphore, UnitRequest
from tokimori.stores.mysql import lines
from tokimori.stores.mysql.lines import PAUSED, paused_queues
from tokimori.stores.mysql.rates import WINDOW
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, insert, sql
from tokimori.stores.rows import PERMIT, permit_row, semaphores_of
from tokimori.stores.rules.claiming import joining
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore
from tokimori.stores.rules.lines import Freed

_SEMAPHORES = f'SELECT name, "limit", {lines.USED}, rate, wakes FROM tokimori_semaphores s {BY_KEY}'
_HOLDERS = f"""
SELECT {PERMIT} FROM (
    SELECT {PERMIT}, ROW_NUMBER() OVER (PARTITION BY semaphore ORDER BY since, id) AS place
    FROM tokimori_permits FORCE INDEX (tokimori_permits_line) WHERE semaphore IN (%s) AND token IS NOT NULL
) held WHERE place <= {MOST_HOLDERS} ORDER BY semaphore, since, id"""
_WEIGHTS = """
SELECT COALESCE(MAX(weight), 0) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
WHERE semaphore = %s AND token IS NULL"""
_JOBS_IN_LINE = """
SELECT j.semaphores FROM (
    SELECT DISTINCT incarnation FROM tokimori_runs FORCE INDEX (tokimori_runs_keys) WHERE blocked_on = %s
) r JOIN tokimori_jobs j ON j.incarnation = r.incarnation"""
_PLACE = f"""
SELECT (SELECT COUNT(*) FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = p.semaphore AND token IS NULL AND ("rank" < p."rank" OR ("rank" = p."rank" AND id < p.id))), token
FROM tokimori_permits p {BY_KEY} WHERE id = %s"""
_CHANGE = """
UPDATE tokimori_semaphores SET "limit" = %s, rate = %s, wakes = NULL, turn = NULL, kept = false, woken = 0
WHERE name = %s"""
_LINE = "FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked) WHERE blocked_on = %s"
_LANES_BEFORE = f'SELECT blocked_on, lane {_LINE} GROUP BY blocked_on, lane HAVING MIN("rank") < %s'
_BEFORE = f'SELECT COUNT(*) FROM (SELECT 1 {_LINE} AND lane = %s AND "rank" < %s LIMIT {MOST_COUNTED}) few'
_WAITING = f"""
SELECT %s, (SELECT COUNT(*) FROM (SELECT 1 FROM tokimori_permits FORCE INDEX (tokimori_permits_line)
    WHERE semaphore = %s AND token IS NULL LIMIT {MOST_COUNTED}) programs
) + (SELECT COUNT(*) FROM (SELECT 1 {_LINE} LIMIT {MOST_COUNTED}) runs)"""


async def list_semaphores(db: Sessions, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    return await _read(db, sql("WHERE name > %s ORDER BY name LIMIT %s", after, limit))


async def get_semaphore(db: Sessions, name: str) -> Semaphore:
    return existing(next(iter(await _read(db, sql("WHERE name = %s", name))), None), no_semaphore(name))


async def _read(db: Sessions, which: str) -> list[Semaphore]:
    rows = await db.rows(f"{_SEMAPHORES} {which}")
    if not rows:
        return []
    counts = await db.rows(" UNION ALL ".join(sql(_WAITING, name, name, line_of(name)) for name, *_ in rows))
    waiting = {name: min(count, MOST_COUNTED) for name, count in counts}
    taken = {name: await _units_taken(db, name, rate) for name, _, _, text, _ in rows if (rate := stored_rate(text))}
    known = [(*row[:3], waiting[row[0]], row[3], taken.get(row[0]), row[4]) for row in rows]
    return semaphores_of(known, await db.rows(sql(_HOLDERS, list(waiting))))


async def _units_taken(db: Sessions, name: str, rate: ClaimRate) -> int:
    ledger = ledger_of(name)
    ((*_, used, _),) = await db.rows(sql(WINDOW, ledger, rate.period, ledger, ledger))
    return int(used or 0)


async def put_semaphore(
    transaction: Transaction, name: str, limit: int, now: Moment, rate: ClaimRate | None = None
) -> None:
    *_, programs, jobs = await transaction.ask(
        *lines.made([name]), sql(_WEIGHTS, name), sql(_JOBS_IN_LINE, line_of(name))
    )
    weights = [lines.names_in(semaphores).get(name, 1) for (semaphores,) in jobs.rows]
    check_lowered(name, limit, max([programs.rows[0][0], *weights]), rate)
    stored = None if rate is None else rate.stored
    change = sql(_CHANGE, limit, stored, name)
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
        sql("DELETE FROM tokimori_taken WHERE semaphore = %s", name),
    )


async def acquire(transaction: Transaction, request: UnitRequest, now: Moment) -> port.Answer:
    alive = await transaction.ask(sql("SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive'", request.node))
    if not alive[0].rows:
        return NodeGone()
    return await _still_waits(transaction, request) or await _acquire(transaction, request, now)


async def _still_waits(transaction: Transaction, request: UnitRequest) -> InLine | None:
    """Return the place of a request that has to wait on, read without a lock. None: a look under the lock decides.

    If many programs locked the semaphore again and again no claim would get it. Runs of paused queues block no program.
    """
    fits = f'SELECT 1 FROM tokimori_semaphores s {BY_KEY} WHERE name = %s AND "limit" - {lines.USED} >= %s'
    place, before, paused, free = await transaction.ask(
        *_place_statements(request), PAUSED, sql(fits, request.semaphore, request.weight)
    )
    lanes = open_lanes([lane for _, lane in before.rows if lane], paused_queues(paused))
    for programs, token in place.rows:
        if token is None and (programs or lanes or not free.rows):
            return await _in_line(transaction, request, programs, before)
    return None


def _place_statements(request: UnitRequest) -> tuple[str, str]:
    return sql(_PLACE, request.id), sql(_LANES_BEFORE, line_of(request.semaphore), request.rank)


async def _in_line(transaction: Transaction, request: UnitRequest, programs: int, before: Answer) -> InLine:
    """Return the number of programs and of runs before the request, at most `MOST_COUNTED`."""
    counts = [sql(_BEFORE, line_of(request.semaphore), lane, request.rank) for _, lane in before.rows if lane]
    answers = await transaction.ask(*counts) if counts else []
    return InLine(ahead=min(MOST_COUNTED, programs + sum(answer.rows[0][0] for answer in answers)))


async def _acquire(transaction: Transaction, request: UnitRequest, now: Moment) -> port.Answer:
    """Take the units, or join the line. The node is locked first: so nobody declares it dead meanwhile."""
    limit = DEFAULT_LIMIT if request.limit is None else request.limit
    alive, _, semaphore, permit = await transaction.ask(
        sql(f"SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive' {SHARED}", request.node),
        *lines.made([request.semaphore], limit),
        sql('SELECT "limit" FROM tokimori_semaphores WHERE name = %s', request.semaphore),
        sql("SELECT token FROM tokimori_permits WHERE id = %s", request.id),
    )
    if not alive.rows:
        return NodeGone()
    if permit.rows and permit.rows[0][0] is not None:
        return Grant(token=permit.rows[0][0])
    join: list[str] = []
    if not permit.rows:
        _, place = joining(request, semaphore.rows[0][0], now)
        join += insert("INSERT", "tokimori_permits", PERMIT, [permit_row(place)])
    found, _ = await lines.look(transaction, [request.semaphore], join)
    turns = [(line, granted) for line in found if (granted := line.grants()) or line.known is not None]
    served = [write for turn in turns for write in lines.serve_line(*turn)]
    *_, placed, before = await transaction.commit(*served, *_place_statements(request))
    ((programs, token),) = placed.rows
    return await _in_line(transaction, request, programs, before) if token is None else Grant(token=token)


async def release(transaction: Transaction, permit: PermitId, node: NodeId, now: Moment) -> bool:
    leave = "DELETE FROM tokimori_permits WHERE id = %s AND node_id = %s AND run_id IS NULL"
    locked, gone = await transaction.ask(lines.lock(permits=[permit]), sql(leave, permit, node))
    if not gone.changed:
        return False
    freed = Freed(semaphores={name for (name,) in locked.rows})
    await transaction.commit(*await lines.serve(transaction, freed))
    return True
