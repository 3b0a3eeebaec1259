"""What any queue on PostgreSQL has to do, and nothing else: claim and complete in batches with bare asyncpg."""

import asyncpg

from benchmarks.postgres_peers.program import Drained, Watch, main

BATCH = 500
TABLES = """
CREATE TABLE limit_runs (id bigint PRIMARY KEY, state text NOT NULL, owner text);
CREATE INDEX limit_ready ON limit_runs (id) WHERE state = 'ready';
"""
CLAIM = """
UPDATE limit_runs SET state = 'running', owner = 'limit' WHERE id IN (
    SELECT id FROM limit_runs WHERE state = 'ready' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING id
"""
COMPLETE = "UPDATE limit_runs SET state = 'succeeded' WHERE id = ANY ($1) AND state = 'running'"


async def fill(url: str, runs: int) -> None:
    """A table of ready runs."""
    db = await asyncpg.connect(url)
    await db.execute(TABLES)
    await db.execute("INSERT INTO limit_runs (id, state) SELECT n, 'ready' FROM generate_series(1, $1::int) AS n", runs)
    await db.close()


async def drain(url: str, runs: int) -> Drained:
    """Two commits a batch; nothing is kept but a state."""
    db = await asyncpg.connect(url)
    ended = 0
    watch = Watch()
    while claimed := await db.fetch(CLAIM, BATCH):
        await db.execute(COMPLETE, [row["id"] for row in claimed])
        ended += len(claimed)
    drained = watch.drained()
    assert ended == runs, f"{ended} of {runs} were claimed"
    await db.close()
    return drained


if __name__ == "__main__":
    main(fill, drain)
