"""Every hot statement walks an index: work is O(due), never O(stored), whatever the statistics say."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_claim, a_job, a_node, a_request, later, planned
from tokimori.errors import NotFound
from tokimori.model.decide import Due
from tokimori.model.document import Document
from tokimori.model.ids import JobId, Lane, PermitId, RunId
from tokimori.model.job import Job
from tokimori.model.policies import Overlap
from tokimori.model.retention import expiry_of, expiry_of_deleted
from tokimori.model.run import Output, Run
from tokimori.model.transitions import STANDING_STILL, RunState
from tokimori.ports.copying import Kind
from tokimori.ports.nodes import Beat, StartedRun
from tokimori.ports.semaphores import Grant, UnitRequest
from tokimori.ports.store import RunFilter
from tokimori.stores.sqlite import connection, jobs, nodes, runs, semaphores, working
from tokimori.stores.sqlite.store import SqliteStore

T = TypeVar("T")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """The tables of a store, without statistics."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    connection.migrate(db, connection.known_migrations(), NOW)
    yield db
    db.close()


class Reader(SqliteStore):
    """A store that reads and writes with this connection, at once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    async def _read(self, work: Callable[..., T], *args: object, **kwargs: object) -> T:
        return work(self.db, *args, **kwargs)

    _write = _read


def work(db: sqlite3.Connection) -> None:
    """Call every method that a node or a person calls often."""
    job = a_job(schedule="* * * * * *", max_running=1, next_due=later(1))
    jobs.add_jobs(db, [job])
    requests = [runs.add_run(db, a_request(job), NOW) for _ in range(3)]
    node, heir = a_node(), a_node()
    for each in (node, heir):
        nodes.register(db, each)
    dues = jobs.due(db, later(1), 10)
    assert dues != []
    plan = planned(Due(job=job), later(1))
    jobs.apply(db, [plan, plan], later(1))
    jobs.outdated(db, "9999z", 10)
    jobs.promote(db, later(1), 10)
    ((claimed,), _) = working.claim(db, a_claim(node.id, [Lane("default||"), Lane("other||")], 10), NOW)
    nodes.tick(
        db,
        Beat(node=node.id, started=(StartedRun(run_id=claimed.run.id, token=claimed.run.token, pid=1, at=NOW),)),
        NOW,
    )
    working.save_outputs(db, [Output(run_id=claimed.run.id, attempt=1, size=0)])
    nodes.bury(db, node.id, 1, heir.id, NOW)
    assert nodes.orphans(db, 10) != []
    nodes.survey(db, NOW)
    runs.list_runs(db, RunFilter(job_id=job.id))
    runs.list_runs(db, RunFilter(before=claimed.run.id))
    runs.last_runs(db, [job.id], 8)
    asyncio.run(read_seldom(Reader(db), job, claimed.run))
    runs.cancel_run(db, requests[-1].id, "enough", NOW)
    asyncio.run(Reader(db).get_due(job.id))
    stored = jobs.get_job(db, job.id)
    jobs.replace_job(db, stored, stored, [])
    old = expiry_of(stored, later(86400 * 90))
    assert old is not None
    runs.prune(db, [replace(old, keep_runs=0)], 10)
    jobs.delete_job(db, job.id, NOW)
    runs.prune(db, [expiry_of_deleted(job.id, job.incarnation, NOW)], 10)
    asyncio.run(Reader(db).deleted_jobs(None, 10))
    runs.prune_nodes(db, NOW, 10)
    asyncio.run(Reader(db).counts(job.id))


async def read_seldom(store: Reader, job: Job, run: Run) -> None:
    """Call what stores with tables read alike."""
    await store.get_run(run.id)
    await store.attempts(run.id)
    await store.output(run.id, 1)
    await store.skips(job.id, limit=10)
    await store.list_jobs(limit=10)
    await store.list_jobs(limit=10, idle=True)
    await store.list_queues("", 10)
    await store.list_nodes(limit=10)
    with pytest.raises(NotFound):
        await store.deleted_job(JobId("never"))


def wait_in_lines(db: sqlite3.Connection) -> None:
    """Call what nodes and programs call of semaphores and keys, so that each line is joined and served."""
    node, program = a_node(), a_node(concurrency=0)
    for each in (node, program):
        nodes.register(db, each)
    keyed, narrow = a_job("keyed"), a_job("narrow", semaphores=("a", "b:2"))
    jobs.add_jobs(db, [keyed, narrow])
    requests = [
        runs.add_run(db, a_request(job, concurrency_key="k", due=later(n - 9)), NOW)
        for job in (keyed, narrow)
        for n in range(3)
    ]
    semaphores.put_semaphore(db, "b", 2, NOW)
    claimed, _ = working.claim(db, a_claim(node.id, nodes.survey(db, NOW).lanes, 10), NOW)
    assert len(claimed) == 2
    wish = UnitRequest(id=PermitId("p"), node=program.id, semaphore="b", rank=NOW)
    for _ in range(2):
        semaphores.acquire(db, wish, NOW)
    nodes.tick(db, Beat(node=node.id), NOW)
    worker = Worker(None, node.id)  # type: ignore[arg-type]
    working.settle(db, [worker.change(each) for each in claimed], node.id, NOW)
    assert semaphores.acquire(db, wish, NOW) == Grant(token=1)
    runs.leave_line(db, requests[-1].id, None, RunState.HELD, "wait", None, None, None)
    semaphores.put_semaphore(db, "b", 3, NOW)
    semaphores.list_semaphores(db, limit=10)
    assert semaphores.release(db, wish.id, program.id, NOW)
    semaphores.delete_semaphore(db, "c")
    nodes.leave(db, program.id, NOW)


def keep_documents(db: sqlite3.Connection) -> None:
    """Call what services call of documents."""
    document = Document(kind="calendar", name="de", text="{}", version=1)
    asyncio.run(Reader(db).put_document(document, None))
    asyncio.run(Reader(db).put_document(replace(document, version=2), 1))
    for prefix, after in (("", ""), ("d", ""), ("d", "de")):
        asyncio.run(Reader(db).list_documents("calendar", prefix=prefix, after=after))
    asyncio.run(Reader(db).get_document("calendar", "de"))
    asyncio.run(Reader(db).delete_document("calendar", "de", 2))


def test_no_statement_walks_a_table(db: sqlite3.Connection) -> None:
    """The plan of each statement that the methods make searches by an index or walks in its order."""
    seen: set[str] = set()
    db.set_trace_callback(seen.add)
    work(db)
    wait_in_lines(db)
    keep_documents(db)
    db.set_trace_callback(None)
    statements = [text for text in seen if re.match(r"\s*(SELECT|WITH|UPDATE|INSERT|DELETE)", text)]
    assert len(statements) > 60
    walks = [statement for statement in statements if any(map(is_walk, steps(db, statement)))]
    assert walks == []


@pytest.mark.parametrize("state", sorted(STANDING_STILL))
def test_what_waits_of_a_job_is_found_by_its_state(db: sqlite3.Connection, state: RunState) -> None:
    """A list of a job's runs in a state that waits searches for both, and sorts nothing: others may be a million."""
    seen: set[str] = set()
    db.set_trace_callback(seen.add)
    runs.list_runs(db, RunFilter(job_id=JobId("job"), states=frozenset({state}), before=RunId("0")))
    db.set_trace_callback(None)
    (statement,) = seen
    (step,) = steps(db, statement)
    assert step.endswith("INDEX tokimori_runs_job_live (job_id=? AND <expr>=? AND id<?)")


def test_a_newcomer_searches_for_scheduled_runs_alone(db: sqlite3.Connection) -> None:
    """Those that it replaces are found by their origin: requested ones of the job may be a million."""
    job = a_job(schedule="* * * * * *", max_running=1, on_overlap=Overlap.REPLACE, next_due=later(1))
    jobs.add_jobs(db, [job])
    newcomer, ids = planned(Due(job=job), later(1))
    seen: set[str] = set()
    db.set_trace_callback(seen.add)
    jobs.apply(db, [(replace(newcomer, replaces=True), ids)], later(1))
    db.set_trace_callback(None)
    (chosen,) = (text for text in seen if text.startswith("SELECT id, incarnation, state"))
    assert steps(db, chosen)[0].endswith("INDEX tokimori_runs_origin (incarnation=? AND origin>? AND origin<?)")


def test_a_place_in_line_is_counted_lane_by_lane(db: sqlite3.Connection) -> None:
    """A program that asks again and again looks at the runs before it, never at those behind it."""
    program = a_node(concurrency=0)
    nodes.register(db, program)
    seen: set[str] = set()
    db.set_trace_callback(seen.add)
    for n in range(2):
        semaphores.acquire(db, UnitRequest(id=PermitId(f"p{n}"), node=program.id, semaphore="s", rank=NOW), NOW)
    db.set_trace_callback(None)
    (counted,) = (text for text in seen if text.startswith("\nSELECT (SELECT count(*)"))
    of_runs = [step for step in steps(db, counted) if "tokimori_runs" in step]
    assert of_runs[-1].endswith("tokimori_runs_semaphore_line (blocked_on=? AND lane=? AND rank<?)")


@pytest.mark.parametrize("state", [RunState.READY, RunState.BLOCKED])
def test_a_beat_reads_lanes_and_lines_not_their_runs(db: sqlite3.Connection, state: RunState) -> None:
    """However many runs are ready, or wait for a semaphore: it walks from one lane or line to the next."""
    job, node, looked = a_job(semaphores=("s",)), a_node(), list[int]()
    jobs.add_jobs(db, [job])
    nodes.register(db, node)
    semaphores.put_semaphore(db, "s", 1, NOW)
    held = UnitRequest(id=PermitId("p"), node=node.id, semaphore="s", rank=0)
    assert isinstance(semaphores.acquire(db, held, NOW), Grant)
    line = "semaphore:s" if state is RunState.BLOCKED else None
    for _ in range(2):
        waiting = [replace(a_request(job), lane=Lane("default||"), state=state, blocked_on=line) for _ in range(500)]
        runs.import_rows(db, Kind.RUNS, waiting)
        looked.append(0)

        def count() -> None:
            looked[-1] += 1

        db.set_progress_handler(count, 1)
        nodes.tick(db, Beat(node=node.id), NOW)
        db.set_progress_handler(None, 1)
    assert looked[1] < looked[0] + 100


def steps(db: sqlite3.Connection, statement: str) -> list[str]:
    """The steps of a statement's plan."""
    return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]


def is_walk(step: str) -> bool:
    """Whether the step reads a whole table; of the pauses, which are few, all are wanted."""
    return re.match(r"SCAN (tokimori_(?!pauses)\w+|[jrs])\Z", step) is not None


def test_a_job_without_live_runs_costs_one_statement(db: sqlite3.Connection) -> None:
    """Most jobs of a list have none: which have is asked once for all of them."""
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    assert runs.last_runs(db, [JobId(f"job-{n}") for n in range(50)], 20) == []
    assert len(asked) == 51


def test_a_walk_is_seen(db: sqlite3.Connection) -> None:
    """A statement that no index serves is found."""
    assert any(is_walk(step) for step in steps(db, "SELECT * FROM tokimori_runs WHERE payload = 'x'"))
