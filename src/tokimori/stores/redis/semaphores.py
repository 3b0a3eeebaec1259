"""Named semaphores: calls of scripts."""

import msgspec

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate, stored_rate
from tokimori.model.ids import NodeId, PermitId
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Answer, Permit, Semaphore, UnitRequest
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.rules.claiming import answer_of
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore

PAGE = 20
"""Semaphores that one script describes, with their holders: other callers wait meanwhile."""
_HOLDER = ("id", "node", "run_id", "weight", "rank", "token", "since")


async def put_semaphore(
    db: RedisConnections, name: str, limit: int, now: Moment, rate: ClaimRate | None = None
) -> None:
    stored = None if rate is None else rate.stored
    check_lowered(name, limit, await db.run("put_semaphore", name=name, limit=limit, rate=stored), rate)


async def list_semaphores(db: RedisConnections, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    """See `Semaphores.list_semaphores`. Read in pages, each as of its own moment."""
    found: list[Semaphore] = []
    while len(found) < limit:
        page = await _described(db, after=after, limit=min(PAGE, limit - len(found)))
        if not page:
            break
        found += page
        after = page[-1].name
    return found


async def get_semaphore(db: RedisConnections, name: str) -> Semaphore:
    return existing(next(iter(await _described(db, name=name, limit=1)), None), no_semaphore(name))


async def _described(db: RedisConnections, **asked: object) -> list[Semaphore]:
    answer = await db.run("list_semaphores", **asked, most=MOST_COUNTED, holders=MOST_HOLDERS)
    return [
        Semaphore(
            name=name,
            limit=limit,
            used=used,
            waiting=waiting,
            holders=tuple(
                msgspec.convert({"semaphore": name, **dict(zip(_HOLDER, words, strict=True))}, Permit, strict=False)
                for words in holders
            ),
            rate=stored_rate(rate),
            taken=taken,
            wakes=None if wakes is None else Moment(int(wakes)),
        )
        for name, limit, used, waiting, holders, rate, taken, wakes in answer
    ]


async def delete_semaphore(db: RedisConnections, name: str) -> None:
    if not await db.run("delete_semaphore", name=name):
        raise in_use(name)


async def acquire(db: RedisConnections, request: UnitRequest, now: Moment) -> Answer:
    answer, number = await db.run("acquire", **msgspec.structs.asdict(request), now=now, most=MOST_COUNTED)
    return answer_of(answer, number, request)


async def release(db: RedisConnections, permit: PermitId, node: NodeId, now: Moment) -> bool:
    return bool(await db.run("release", id=permit, node=node))
