"""From old rows to counts: what is asked of the scripts on them."""

from collections import Counter
from collections.abc import Sequence

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import DailyCount, Expiry, day_of, first_id_at
from tokimori.stores.redis.connections import Connections
from tokimori.stores.redis.hashes import skips_of
from tokimori.stores.rules.counts import daily_counts

PAGE = 5_000
"""How many runs are counted in one script."""
_Counts = Counter[tuple[Moment, str]]


async def prune(db: Connections, expiries: Sequence[Expiry], limit: int) -> int:
    old = [
        {
            "job": expiry.job_id,
            "inc": str(expiry.incarnation),
            "bound": first_id_at(expiry.before),
            "before": expiry.before,
            "keyed_before": expiry.keyed_before,
            "keep": expiry.keep_runs,
            "deleted": expiry.deleted,
        }
        for expiry in expiries
    ]
    return int(await db.run("prune", old=old, limit=limit))


async def deleted_jobs(db: Connections, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
    found = await db.run("deleted_jobs", after=None if after is None else str(after), limit=limit)
    return [(Incarnation(int(incarnation)), JobId(job_id)) for incarnation, job_id in found]


async def prune_nodes(db: Connections, before: Moment, limit: int) -> int:
    return int(await db.run("prune_nodes", before=before, limit=limit))


async def counts(db: Connections, job_id: JobId) -> list[DailyCount]:
    """See `Pruning.counts`. Runs are counted in pages: where any was pruned meanwhile, once more."""
    while True:
        seen = await db.run("counts", job=job_id)
        kept = await _kept_runs(db, job_id)
        if await db.run("counts", job=job_id) == seen:
            break
    flat, skips = seen
    for skip in skips_of(skips):
        kept[day_of(skip.last), skip.reason] += skip.count
    pruned = _Counts()
    for key, number in zip(flat[::2], flat[1::2], strict=True):
        _, day, outcome = key.split(" ")
        pruned[Moment(int(day)), outcome] += int(number)
    return daily_counts(kept, pruned)


async def _kept_runs(db: Connections, job_id: JobId) -> _Counts:
    kept = _Counts()
    after: str | None = None
    while True:
        after, *flat = await db.run("count_runs", job=job_id, after=after, most=PAGE)
        if after is None:
            return kept
        for key, number in zip(flat[::2], flat[1::2], strict=True):
            day, state = key.split(" ")
            kept[Moment(int(day)), state] += number
