"""A steady load under a retention of seconds: what a store keeps does not grow."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.contract.stores.actors import EVERY_SECOND, Worker, a_job, fire, later
from tokimori.model.retention import Expiry, expiry_of
from tokimori.ports.store import RunFilter, Store

JOBS = 40
ROUNDS = 120
LOOK_EVERY = 10


async def _sqlite(store: Any) -> int:
    return int(
        await store._read(lambda db: db.execute("SELECT page_count * 4096 FROM pragma_page_count").fetchone()[0])
    )


async def _postgres(store: Any) -> int:
    for table in ("history", "runs", "jobs", "counts", "nodes"):
        await store.db.rows(f"VACUUM tokimori_{table}")  # what autovacuum does in its own time
    query = (
        "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relname LIKE 'tokimori%' AND relkind = 'r'"
    )
    return int(await store.db.value(query))


async def _redis(store: Any) -> int:
    told: str = await store.db.do("INFO", "memory")
    return int(told.partition("used_memory:")[2].split()[0])


async def _rows(_store: Any) -> int:
    """Of the others only the rows are looked at: their statistics of sizes lag by minutes."""
    return 0


SIZES: dict[str, Callable[[Any], Awaitable[int]]] = {
    "SqliteStore": _sqlite,
    "PostgresStore": _postgres,
    "RedisStore": _redis,
}


@pytest.mark.prove
async def test_a_steady_load_stays_in_its_place(store: Store, worker: Worker) -> None:
    """While jobs fire, run and are pruned, rows and sizes of the second half are those of the first."""
    size_of = SIZES.get(type(store).__name__, _rows)
    jobs = [
        a_job(f"job-{n}", schedule=EVERY_SECOND, next_due=later(1), retention="PT10S", keep_runs=5) for n in range(JOBS)
    ]
    await store.add_jobs(jobs)
    looks: list[tuple[int, int]] = []
    for second in range(1, ROUNDS + 1):
        now = later(second)
        await fire(store, now)
        changes = [worker.change(claimed, now=now) for claimed in await worker.claim(now=now)]
        await store.settle(changes, worker.id, now)
        rest: Sequence[Expiry] = [expiry for job in jobs if (expiry := expiry_of(job, now)) is not None]
        while rest:
            rest = await store.prune(rest, 500)
        if second % LOOK_EVERY == 0:
            looks.append((len(await store.list_runs(RunFilter(limit=100_000))), await size_of(store)))
    print(f"\n{type(store).__name__}: rows and bytes every {LOOK_EVERY} s: {looks}")
    half = len(looks) // 2
    rows, sizes = zip(*looks, strict=True)
    assert max(rows[half:]) <= max(rows[2:half]) * 1.05
    assert max(sizes[half:]) <= max(sizes[2:half]) * 1.1
    assert sum(each.count for each in await store.counts(jobs[0].id)) == ROUNDS
