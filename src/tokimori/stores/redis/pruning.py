"""Pruning of old rows into counts: calls of scripts."""

from collections.abc import Sequence

import msgspec

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import MOST_COUNTED, DailyCount, Expiry, daily_counts, day_of, rest_of
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.hashes import skips_of

PAGE = 5_000
"""Runs that are counted in one script."""


async def prune(db: RedisConnections, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
    old = [{**msgspec.to_builtins(expiry), "incarnation": str(expiry.incarnation)} for expiry in expiries]
    return rest_of(expiries, *await db.run("prune", old=old, limit=limit))


async def deleted_jobs(db: RedisConnections, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
    first = "-" if after is None else f"({after:0>19} ~"
    found = await db.do("ZRANGEBYLEX", f"{db.address.prefix}deleted", first, "+", "LIMIT", "0", str(limit))
    return [(Incarnation(int(member[:19])), JobId(member[20:])) for member in found]


async def prune_nodes(db: RedisConnections, before: Moment, limit: int) -> int:
    return int(await db.run("prune_nodes", before=before, limit=limit))


async def counts(db: RedisConnections, job_id: JobId) -> list[DailyCount]:
    """See `Pruning.counts`. Runs are counted in pages, and again if any was pruned meanwhile."""
    while True:
        seen = await db.run("counts", job=job_id, most=MOST_COUNTED)
        kept = await _kept_runs(db, job_id)
        if await db.run("counts", job=job_id, most=MOST_COUNTED) == seen:
            break
    flat, skips = seen
    kept += ((day_of(skip.last), skip.reason, skip.count, 0, 1) for skip in skips_of(skips))
    for key, number in zip(flat[::2], flat[1::2], strict=True):
        _, day, outcome = key.split(" ")
        kept.append((Moment(int(day)), outcome, 0, int(number), 0))
    return daily_counts(kept)


async def _kept_runs(db: RedisConnections, job_id: JobId) -> list[tuple[Moment, str, int, int, int]]:
    """Return the ended runs among the newest ones, of which live ones are passed."""
    kept: list[tuple[Moment, str, int, int, int]] = []
    before: str | None = None
    for _ in range(MOST_COUNTED // PAGE + 1):
        before, *flat = await db.run("count_runs", job=job_id, before=before, most=PAGE)
        for key, number in zip(flat[::2], flat[1::2], strict=True):
            day, state = key.split(" ")
            kept.append((Moment(int(day)), state, int(number), 0, 0))
        if before is None:
            return kept
    return [(*each[:4], MOST_COUNTED + 1) for each in kept]
