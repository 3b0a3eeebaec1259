"""How long a claim on PostgreSQL may take, whatever it meets."""

from pathlib import Path

import asyncpg

from tests.contract.stores.actors import NOW, Worker, a_claim, add_job, add_runs
from tests.contract.stores.conftest import STORES, forget
from tests.servers import postgres
from tokimori.model.lanes import lane_of
from tokimori.stores.postgres import working
from tokimori.stores.postgres.store import PostgresStore

_STRAY = """
UPDATE tokimori_jobs SET lane = NULL;
INSERT INTO tokimori_moves (incarnation, origin, woken, names, since)
SELECT incarnation, '', 0, '{}', 0 FROM tokimori_jobs;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END';
CREATE TRIGGER slow BEFORE UPDATE ON tokimori_runs FOR EACH ROW EXECUTE FUNCTION slow()
"""


async def test_a_claim_keeps_what_followed_and_ends_soon(tmp_path: Path) -> None:
    """Runs that have not followed their paused job are moved for 0.05 s: all of them at once timed out."""
    store = STORES["postgres"](tmp_path)
    assert isinstance(store, PostgresStore)
    await store.open()
    await store.migrate()
    worker = await Worker.join(store)
    await add_runs(store, job := await add_job(store), 200)
    session = await asyncpg.connect(postgres.loans.url_of(tmp_path))
    try:
        await session.execute(_STRAY)
        claim = a_claim(worker.id, [lane_of(job.definition)], 4)
        assert await working.claim(store.db, claim, NOW) == ([], True)  # that is 0.08 s; then it would be 16
        left = await session.fetchval("SELECT count(*) FROM tokimori_runs WHERE lane IS NOT NULL")
    finally:
        await session.execute("DROP FUNCTION slow CASCADE")
        await session.close()
    assert left == 196
    await store.close()
    forget("postgres", tmp_path)
