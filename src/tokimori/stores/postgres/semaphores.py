"""Named semaphores for people and programs: functions of the database change the lines."""

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.ids import NodeId, PermitId
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Answer, Semaphore, UnitRequest
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.rows import PERMIT, semaphores_of
from tokimori.stores.rules.claiming import answer_of
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore

_LIST = f"""
SELECT s.name, s."limit", s."limit" - tokimori_unused(s.name),
    (SELECT count(*) FROM (
        SELECT FROM tokimori_permits WHERE semaphore = s.name AND waiting
        UNION ALL
        SELECT FROM tokimori_runs WHERE state = 'blocked' AND blocked_on = 'semaphore:' || s.name AND lane IS NOT NULL
        LIMIT {MOST_COUNTED}) w),
    s.rate, CASE WHEN s.rate IS NOT NULL THEN (SELECT used FROM tokimori_window(s.name, s.rate, tokimori_now())) END,
    s.wakes
FROM tokimori_semaphores s"""
_HOLDERS = f"""
SELECT {PERMIT} FROM unnest($1::text[]) AS s (name) CROSS JOIN LATERAL (
    SELECT {PERMIT} FROM tokimori_permits WHERE semaphore = s.name AND NOT waiting
    ORDER BY since, id LIMIT {MOST_HOLDERS}) p"""


async def put_semaphore(
    db: PostgresConnections, name: str, limit: int, now: Moment, rate: ClaimRate | None = None
) -> None:
    stored = None if rate is None else rate.stored
    heaviest = await db.value("SELECT tokimori_put_semaphore($1, $2, $3)", name, limit, stored)
    check_lowered(name, limit, heaviest or 0, rate)


async def list_semaphores(db: PostgresConnections, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    return await _semaphores(db, "WHERE s.name > $1 ORDER BY s.name LIMIT $2", after, limit)


async def get_semaphore(db: PostgresConnections, name: str) -> Semaphore:
    return existing(next(iter(await _semaphores(db, "WHERE s.name = $1", name)), None), no_semaphore(name))


async def _semaphores(db: PostgresConnections, which: str, *values: object) -> list[Semaphore]:
    rows = await db.rows(f"{_LIST} {which}", *values)
    return semaphores_of(rows, await db.rows(_HOLDERS, [row[0] for row in rows]))


async def delete_semaphore(db: PostgresConnections, name: str) -> None:
    if not await db.value("SELECT tokimori_delete_semaphore($1)", name):
        raise in_use(name)


async def acquire(db: PostgresConnections, request: UnitRequest, now: Moment) -> Answer:
    ((answer, number),) = await db.rows(
        "SELECT * FROM tokimori_acquire($1, $2, $3, $4, $5, $6, $7, $8)",
        *(request.id, request.node, request.semaphore, request.weight, request.limit, request.rank, now, MOST_COUNTED),
    )
    return answer_of(answer, number, request)


async def release(db: PostgresConnections, permit: PermitId, node: NodeId, now: Moment) -> bool:
    return bool(await db.value("SELECT tokimori_release($1, $2)", permit, node))
