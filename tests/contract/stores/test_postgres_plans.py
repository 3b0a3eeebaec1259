"""PostgreSQL finds what it needs by an index, also while its statistics say that there is nothing."""

import asyncio
import re
from collections.abc import AsyncIterator
from copy import copy
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_job,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
)
from tests.contract.stores.conftest import STORES, forget
from tokimori.clock import Moment
from tokimori.model.ids import JobId, RunId
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Released
from tokimori.model.run import Details, Step
from tokimori.model.transitions import STANDING_STILL, RunState
from tokimori.ports.nodes import Beat, StartedRun
from tokimori.ports.semaphores import InLine
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict
from tokimori.stores.postgres import jobs, nodes, runs, semaphores
from tokimori.stores.postgres.address import PostgresAddress
from tokimori.stores.postgres.connections import PostgresConnections, Row
from tokimori.stores.postgres.schema import FunctionSet
from tokimori.stores.postgres.store import FIRST_SESSIONS

RUNS = 1000
JOINS = 200
LISTED = {
    RunState.WAITING: "runs_{}_live",
    RunState.HELD: "runs_{}_live",
    RunState.RUNNING: "runs_owned",
    RunState.FAILED: "history_{}_ends",
    RunState.CANCELLED: "history_{}_ends",
}
"""The index by which the runs of a state are listed."""
_WAIT = "UPDATE tokimori_runs SET state = 'waiting' WHERE id IN (SELECT id FROM of)"
MOST_READ = 12
"""Rows and index entries read for each run, in all: a scan for each of them would be RUNS."""
MOST_READ_OF_LINES = 60
"""The same for a step beside lines in which so many stand."""
_READ = """
SELECT sum(seq_tup_read) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'tokimori_runs')
FROM pg_stat_user_tables WHERE relname IN ('tokimori_runs', 'tokimori_history')
"""
_JOBS_READ = """
SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'tokimori_jobs')
FROM pg_stat_user_tables WHERE relname = 'tokimori_jobs'
"""

_ARRIVALS_READ = _JOBS_READ.replace("tokimori_jobs", "tokimori_arrivals")
_LINES_READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname ~ '^tokimori_(runs|permits|semaphores)$')
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname ~ '^tokimori_(runs|permits|semaphores)$')
"""
_VACUUMS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A store whose tables were analysed when they were empty, and will not be again.

    It has one session: another would tell what it read up to seconds later, as if a later step had read it. Nothing is
    vacuumed: whoever looks at rows for longer, as VACUUM and ANALYZE do, keeps dead entries in every index.
    """
    monkeypatch.setattr("tokimori.stores.server_store.MOST_CONNECTIONS", 1)
    store = STORES["postgres"](tmp_path)
    await store.open()
    await store.migrate()
    await let_vacuum(store, "off")
    await store.db.rows("ANALYZE")  # type: ignore[attr-defined]
    yield store
    await let_vacuum(store, "on")
    await store.close()
    forget("postgres", tmp_path)


async def let_vacuum(store: Store, setting: str) -> None:
    """Turn the server's vacuum by itself on or off, once what it has begun has ended."""
    await store.db.rows(f"ALTER SYSTEM SET autovacuum = {setting}")  # type: ignore[attr-defined]
    await store.db.rows("SELECT pg_reload_conf()")  # type: ignore[attr-defined]
    async with asyncio.timeout(60):
        while await store.db.value(_VACUUMS):  # type: ignore[attr-defined]
            await store.db.rows("SELECT pg_sleep(0.01)")  # type: ignore[attr-defined]


async def read(store: Store, query: str = _READ) -> int:
    """Rows and index entries that were read so far, once the session has told of its own."""
    await store.db.rows("SELECT pg_stat_force_next_flush()")  # type: ignore[attr-defined]
    return int(await store.db.value(query))  # type: ignore[attr-defined]


async def test_a_database_that_is_lent_again_is_as_new(tmp_path: Path) -> None:
    """The server knows nothing of the rows that an earlier test has had there: plans went by their statistics."""
    known = "SELECT count(*) FROM pg_stats WHERE tablename = 'tokimori_runs'"
    for expected in (True, False):
        store = STORES["postgres"](tmp_path)
        await store.open()
        await store.migrate()
        if expected:
            await add_runs(store, await add_job(store), 30)
        await store.db.rows("ANALYZE tokimori_runs")  # type: ignore[attr-defined]
        assert bool(await store.db.value(known)) is expected  # type: ignore[attr-defined]
        await store.close()
        forget("postgres", tmp_path)


async def test_a_batch_reads_no_more_than_its_runs(store: Store) -> None:
    """Firing, claiming, beating and settling a thousand runs reads a few rows for each, not all for each."""
    worker = await Worker.join(store)
    scheduled = [
        a_job(f"job-{n}", schedule=EVERY_SECOND, next_due=later(1), max_running=n % 2 * 2000) for n in range(RUNS // 2)
    ]
    await store.add_jobs(scheduled)
    costs = {}
    seen = await read(store)

    async def note(step: str) -> None:
        nonlocal seen
        now = await read(store)
        costs[step], seen = (now - seen) / RUNS, now

    assert len(await fire(store, later(1))) == RUNS // 2
    for job in scheduled:
        await store.add_run(a_request(job), NOW)
    await note("fire and request")
    claimed = await worker.claim(RUNS)
    assert len(claimed) == RUNS
    await note("claim")
    began = tuple(StartedRun(run_id=each.run.id, token=each.run.token, pid=1, at=NOW) for each in claimed)
    await nodes.tick(store.db, Beat(node=worker.id, started=began))  # type: ignore[attr-defined]
    await note("tick")
    back = [worker.change(each, Released("later")) for each in claimed]
    assert set(await store.settle(back, worker.id, NOW)) == {Verdict.APPLIED}
    await note("settle what goes on")
    again = [worker.change(each) for each in await worker.claim(RUNS)]
    await note("claim again")
    assert set(await store.settle(again, worker.id, NOW)) == {Verdict.APPLIED}
    await note("settle what ends")
    assert set(await store.settle(again, worker.id, NOW)) == {Verdict.ALREADY_APPLIED}
    await note("settle twice")
    assert max(costs.values()) <= MOST_READ, costs


@pytest.mark.parametrize("empty", [True, False])
async def test_a_complete_join_reads_no_other_one(store: Store, empty: bool) -> None:
    """Beside the arrivals of hundreds of others, which the statistics know or not."""
    worker = await Worker.join(store)
    job, _ = await add_job(store, "a", max_running=0), await add_job(store, "b", max_running=0)
    steps = [Step(id=RunId(f"01b8dac5-b400-7000-8000-{n:012d}"), job=JobId("b"), joins=2) for n in range(JOINS)]
    twice = [replace(a_request(job), details=Details(then=(each,))) for each in steps * 2]
    await store.add_runs(twice, NOW)
    claimed = {each.run.id: worker.change(each, now=later(1)) for each in await worker.claim(2 * JOINS)}
    for first in (0, JOINS):
        if first and not empty:
            await store.db.rows("ANALYZE")  # type: ignore[attr-defined]
        seen = await read(store, _ARRIVALS_READ)
        await store.settle(
            [claimed[run.id] for run in sorted(twice[first : first + JOINS], key=lambda run: run.id)], worker.id, NOW
        )
        assert await read(store, _ARRIVALS_READ) - seen <= MOST_READ * JOINS
    assert len(await store.list_runs(RunFilter(job_id=JobId("b"), limit=1000))) == JOINS


async def test_work_reads_what_is_due_not_what_is_stored(store: Store) -> None:
    """Of many jobs that are far away and one that is due, each step of a node's work reads a few."""
    far = [a_job(f"far-{n}", schedule=EVERY_SECOND, next_due=later(10**6 + n)) for n in range(RUNS)]
    await store.add_jobs([*far, a_job("due", schedule=EVERY_SECOND, next_due=later(1))])
    worker = await Worker.join(store)
    costs = {}
    seen = await read(store, _JOBS_READ)

    async def note(step: str) -> None:
        nonlocal seen
        now = await read(store, _JOBS_READ)
        costs[step], seen = now - seen, now

    await store.survey(NOW)
    await note("survey")
    await nodes.tick(store.db, Beat(node=worker.id))  # type: ignore[attr-defined]
    await note("tick")
    assert [plan.job_id for plan in await fire(store, later(1))] == ["due"]
    await note("fire")
    claimed = await worker.claim()
    await note("claim")
    assert await store.settle([worker.change(each) for each in claimed], worker.id, NOW) == [Verdict.APPLIED]
    await note("settle")
    assert max(costs.values()) <= MOST_READ, costs


@pytest.mark.parametrize("empty", [True, False])
async def test_a_node_reads_only_what_is_its_own(store: Store, empty: bool) -> None:
    """Beside a node with a thousand running runs, another one's beat, claim, settle and farewell read a few."""
    other, worker = await Worker.join(store), await Worker.join(store)
    await store.add_jobs([a_job("many", max_running=0), a_job("few", max_running=2)])
    many, few = [await store.get_job(JobId(name)) for name in ("many", "few")]
    await add_runs(store, many, RUNS)
    if not empty:  # statistics of a moment at which none ran
        await store.db.rows("ANALYZE")  # type: ignore[attr-defined]
    assert len(await other.claim(RUNS)) == RUNS
    await add_runs(store, few, 1)
    await store.survey(NOW)  # whoever looks first passes what was ready
    costs = {}
    seen = await read(store)

    async def note(step: str) -> None:
        nonlocal seen
        now = await read(store)
        costs[step], seen = now - seen, now

    await nodes.tick(store.db, Beat(node=worker.id))  # type: ignore[attr-defined]
    await note("tick")
    (claimed,) = await worker.claim()
    await note("claim")
    assert await worker.settle(claimed) is Verdict.APPLIED
    await note("settle")
    assert await store.leave(worker.id, NOW)
    await note("leave")
    assert max(costs.values()) <= MOST_READ, costs


async def wait_in_line(store: Store) -> None:
    """A thousand runs that want a semaphore, and a thousand of one key."""
    for name, terms in (("behind", {"semaphores": ("db",)}), ("keyed", {"concurrency_key": "k"})):
        job = await add_job(store, name, **terms)
        key = job.definition.concurrency_key
        requests = [a_request(job, due=Moment(NOW - RUNS + n), concurrency_key=key) for n in range(RUNS)]
        for n in range(0, RUNS, 500):
            await store.add_runs(requests[n : n + 500], NOW)


@pytest.mark.parametrize("empty", [True, pytest.param(False, marks=pytest.mark.prove)])
async def test_who_stands_in_line_is_not_read(store: Store, empty: bool) -> None:
    """Beside a thousand runs in the line of a semaphore and a thousand in that of a key, every step reads a few."""
    other, worker = await Worker.join(store), await Worker.join(store)
    db, api = await other.acquire("db", rank=0), await other.acquire("api", rank=0)
    await wait_in_line(store)
    if not empty:  # statistics of a moment at which none stood in line
        await store.db.rows("ANALYZE")  # type: ignore[attr-defined]
    (running,) = await worker.claim(2 * RUNS)
    free, few = await add_job(store, "free"), await add_job(store, "few", semaphores=("api",))
    # Whoever looks first passes what was ready.
    assert await store.claim(a_claim(worker.id, [lane_of(few.definition), lane_of(free.definition)], 9), NOW) == []
    late = await store.add_run(a_request(await store.get_job(JobId("behind")), due=Moment(NOW - 2 * RUNS)), NOW)
    costs = {}
    seen = await read(store, _LINES_READ)

    async def note(step: str) -> None:
        nonlocal seen
        now = await read(store, _LINES_READ)
        costs[step], seen = now - seen, now

    await add_runs(store, free, 1)
    await store.survey(NOW)
    await note("add and survey")
    assert len(await worker.claim()) == 1
    await note("claim beside the lines, and one joins")
    await nodes.tick(store.db, Beat(node=worker.id))  # type: ignore[attr-defined]
    await note("tick")
    assert await worker.settle(running) is Verdict.APPLIED
    await note("settle with a key, and one is woken")
    await store.cancel_run(late.id, "enough", NOW)
    await note("cancel the head of the line")
    (run,) = await add_runs(store, few, 1)
    await worker.claim()
    await note("claim a key, and one joins the other line")
    assert await other.release(api)
    await note("release, and one is woken")
    (claimed,) = await worker.claim()
    assert claimed.run.id == run.id
    await note("claim with a semaphore")
    assert await worker.settle(claimed) is Verdict.APPLIED
    await note("settle with a semaphore")
    asked = await worker.acquire("db", rank=1)
    assert asked.answer == InLine(ahead=0)
    await note("ask")
    assert await worker.release(asked)
    await note("go")
    assert await other.release(db)
    await note("release before the line, and one is woken")
    (claimed,) = await worker.claim()
    await note("claim the one that was woken")
    assert await worker.settle(claimed) is Verdict.APPLIED
    await note("settle it, and one is woken")
    assert max(costs.values()) <= MOST_READ_OF_LINES, costs


class Explained(PostgresConnections):
    """Asks for the plan of each statement, and keeps it."""

    def __init__(self, address: PostgresAddress, functions: FunctionSet) -> None:
        super().__init__(address, 1, functions)
        self.plans: dict[str, str] = {}

    async def rows(self, statement: str, *values: object) -> list[Row]:
        """The answer, after the plan was noted."""
        self.plans[statement] = "\n".join(line for (line,) in await super().rows(f"EXPLAIN {statement}", *values))
        return await super().rows(statement, *values)


async def test_no_statement_reads_a_whole_table(store: Store) -> None:
    """What is sent as one statement uses indexes, though its plan is made while the tables are empty."""
    db = Explained(store._address, store._functions)  # type: ignore[attr-defined]
    job = await add_job(store)
    (run,) = await add_runs(store, job, 1)
    await jobs.due(db, NOW, 500)
    await jobs.promote(db, NOW, 500)
    await jobs.outdated(db, "2030a", 500)
    reader = copy(store)
    reader._opened = db, db  # type: ignore[attr-defined]
    await reader.get_due(job.id)
    await reader.skips(job.id, limit=10)
    await reader.attempts(run.id)
    for idle in (True, False):
        await reader.list_jobs(limit=100, idle=idle)
    await reader.list_nodes(limit=10)
    await runs.get_run(db, run.id)
    for wanted in (RunFilter(), RunFilter(job_id=job.id), RunFilter(before=run.id)):
        await runs.list_runs(db, wanted)
    await runs.last_runs(db, [job.id], 8)
    await nodes.orphans(db, 10)
    await semaphores.list_semaphores(db, limit=10)
    await db.close()
    assert len(db.plans) >= 12
    assert [plan for plan in db.plans.values() if "Seq Scan" in plan] == []


@pytest.mark.parametrize("analysed", [False, True])
async def test_a_list_walks_the_index_of_what_it_wants(store: Store, analysed: bool) -> None:
    """By job and state, runs come from an index of theirs, in its order, whether the tables were analysed or not."""
    db = Explained(store._address, store._functions)  # type: ignore[attr-defined]
    await add_runs(store, await add_job(store), 30)
    if analysed:
        await store.db.rows("ANALYZE")  # type: ignore[attr-defined]
    for job_id, (state, index) in product((None, JobId("job")), LISTED.items()):
        await runs.list_runs(db, RunFilter(job_id=job_id, states=frozenset({state})))
        (plan,) = db.plans.values()
        db.plans.clear()
        assert f"tokimori_{index}".format("state" if job_id is None else "job") in plan, plan
        if job_id is not None and state in STANDING_STILL:
            assert f"(TRIM(BOTH FROM state) = '{state}'::text)" in plan.partition("Index Cond:")[2].split("\n")[0], plan
    await db.close()


async def test_a_list_of_ready_runs_takes_the_shorter_way(store: Store) -> None:
    """A few of many runs are taken from the index of what is ready, and sorted; many are met by a walk of all."""
    db = Explained(store._address, store._functions)  # type: ignore[attr-defined]
    job = await add_job(store)
    for _ in range(4):
        await store.add_runs([a_request(job) for _ in range(500)], NOW)
    ask = store.db.rows  # type: ignore[attr-defined]
    for waiting, index in ((1990, "runs_ready"), (0, "runs_pkey")):
        await ask("UPDATE tokimori_runs SET state = 'ready'")
        await ask(f"WITH of AS (SELECT id FROM tokimori_runs LIMIT {waiting}) {_WAIT}")
        await ask("ANALYZE")
        found = await runs.list_runs(db, RunFilter(states=frozenset({RunState.READY}), limit=100))
        assert len(found) == min(100, 2000 - waiting)
        (plan,) = db.plans.values()
        db.plans.clear()
        assert f"tokimori_{index}" in plan, plan
    await db.close()


async def test_what_is_due_is_found_by_its_moment(store: Store) -> None:
    """Also by a plan that was made with statistics of a table that is empty by then: nothing is sorted."""
    await store.add_jobs([a_job(f"job-{n}", schedule=EVERY_SECOND, next_due=later(n % 7)) for n in range(30)])
    await store.db.rows("ANALYZE")  # type: ignore[attr-defined]
    await store.db.rows("TRUNCATE tokimori_jobs")  # type: ignore[attr-defined]
    db = PostgresConnections(store._address, 1)  # type: ignore[attr-defined]
    for statement, index in ((jobs.DUE_NOW, "tokimori_jobs_due"), (jobs.OUTDATED, "tokimori_jobs_tzdata")):
        await db.rows(f"PREPARE kept AS {statement}")
        values = ", ".join("'0'" for _ in set(re.findall(r"\$\d", statement)))
        plan = "\n".join(line for (line,) in await db.rows(f"EXPLAIN EXECUTE kept ({values})"))
        await db.rows("DEALLOCATE kept")
        assert index in plan
        assert "Sort" not in plan
    await db.close()


async def test_a_node_that_registers_has_its_sessions_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due opens no session: settle and claim find one each."""
    monkeypatch.setattr("tokimori.stores.postgres.store.FIRST_SESSIONS", FIRST_SESSIONS)
    store = STORES["postgres"](tmp_path)
    await store.open()
    await store.migrate()
    await Worker.join(store)
    assert len(store.db._free) == FIRST_SESSIONS  # type: ignore[attr-defined]
    await store.close()
    forget("postgres", tmp_path)
