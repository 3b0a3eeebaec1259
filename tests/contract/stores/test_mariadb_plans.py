"""MariaDB finds what it needs by an index, also while its statistics say that there is nothing."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_job,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
    planned,
)
from tests.contract.stores.conftest import STORES, forget
from tokimori.model.outcome import Released
from tokimori.model.policies import Overlap
from tokimori.model.transitions import STANDING_STILL, RunState
from tokimori.ports.nodes import Beat, StartedRun
from tokimori.ports.semaphores import MOST_COUNTED, InLine
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict
from tokimori.stores.mysql.sessions import TransactionSession
from tokimori.stores.mysql.statements import Answer

RUNS = 1000
MOST_READ = 12
"""Rows and index entries read for each run, in all: a scan for each of them would be RUNS."""
FEW = 60
"""Rows and index entries that a look at thousands of runs may read."""
_GONE = """INSERT INTO tokimori_nodes
    SELECT CONCAT('gone-', seq), host, boot_id, pid, labels, concurrency, version, started, beat, 'left', seq
    FROM tokimori_nodes, seq_1_to_1000 WHERE id = '{}'"""
_WAIT_TOO = """INSERT INTO tokimori_runs (id, origin, "rank", job_id, incarnation, nominal, due, state, priority,
        lane, created, attempt, failures, lost, token, blocked_on)
    SELECT CONCAT('run-', seq), CONCAT('m:', seq), "rank" + seq, job_id, incarnation, nominal, due, state, priority,
        lane, created, attempt, failures, lost, token, blocked_on
    FROM tokimori_runs, seq_1_to_5000 WHERE id = '{}'"""
TABLES = ("jobs", "runs", "history")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store whose tables were analysed when they were empty, and will not be again."""
    store = STORES["mariadb"](tmp_path)
    await store.open()
    await store.migrate()
    for table in TABLES:
        await ask(store, f"ALTER TABLE tokimori_{table} STATS_AUTO_RECALC = 0")
        await ask(store, f"ANALYZE TABLE tokimori_{table}")
    yield store
    for table in TABLES:
        await ask(store, f"ALTER TABLE tokimori_{table} STATS_AUTO_RECALC = DEFAULT")
    await store.close()
    forget("mariadb", tmp_path)


async def ask(store: Store, statement: str) -> list[tuple[object, ...]]:
    """What the server answers."""
    return await store.db.rows(statement)  # type: ignore[attr-defined, no-any-return]


async def read(store: Store) -> int:
    """Rows and index entries that were read so far, by whatever means."""
    return sum(int(str(count)) for _, count in await ask(store, "SHOW GLOBAL STATUS LIKE 'Handler\\_read\\_%'"))


class Costs:
    """What each step has read."""

    def __init__(self, store: Store, seen: int) -> None:
        self._store = store
        self._seen = seen
        self.noted: dict[str, int] = {}

    async def note(self, step: str) -> None:
        """The step ends here."""
        now = await read(self._store)
        self.noted[step], self._seen = now - self._seen, await read(self._store)


async def test_a_batch_reads_no_more_than_its_runs(store: Store) -> None:
    """Firing, claiming, beating and settling a thousand runs reads a few rows for each, not all for each."""
    worker = await Worker.join(store)
    scheduled = [
        a_job(f"job-{n}", schedule=EVERY_SECOND, next_due=later(1), max_running=n % 2 * 2000) for n in range(RUNS // 2)
    ]
    await store.add_jobs(scheduled)
    costs = Costs(store, await read(store))
    assert len(await fire(store, later(1))) == RUNS // 2
    for job in scheduled:
        await store.add_run(a_request(job), NOW)
    await costs.note("fire and request")
    claimed = await worker.claim(RUNS)
    assert len(claimed) == RUNS
    await costs.note("claim")
    began = tuple(StartedRun(run_id=each.run.id, token=each.run.token, pid=1, at=NOW) for each in claimed)
    await store.tick(Beat(node=worker.id, started=began), NOW)
    await costs.note("tick")
    back = [worker.change(each, Released("later")) for each in claimed]
    assert set(await store.settle(back, worker.id, NOW)) == {Verdict.APPLIED}
    await costs.note("settle what goes on")
    again = [worker.change(each) for each in await worker.claim(RUNS)]
    await costs.note("claim again")
    assert set(await store.settle(again, worker.id, NOW)) == {Verdict.APPLIED}
    await costs.note("settle what ends")
    assert set(await store.settle(again, worker.id, NOW)) == {Verdict.ALREADY_APPLIED}
    await costs.note("settle twice")
    assert max(costs.noted.values()) <= MOST_READ * RUNS, costs.noted


async def test_a_look_at_much_reads_little(store: Store) -> None:
    """What a node asks all the time, and what people ask of one thing, costs the same however much there is.

    For lanes and owners the server must have counted once: it does so by itself, seconds after a tenth was changed.
    """
    worker, dead = await Worker.join(store), await Worker.join(store)
    jobs = [await add_job(store, name, queue=name) for name in ("a", "b")]
    (run, *_) = [run for job in jobs for run in await add_runs(store, job, RUNS // 2)]
    await add_job(store, "c", queue="c", max_running=1)
    await dead.claim(RUNS // 4)
    await dead.die(by=worker)
    await store.add_jobs([a_job(f"later-{n}", schedule=EVERY_SECOND, next_due=later(60 + n)) for n in range(RUNS)])
    await ask(store, _GONE.format(worker.id))
    await ask(store, "ANALYZE TABLE tokimori_runs")
    costs = Costs(store, await read(store))
    assert (await store.survey(NOW)).lanes == ("a||", "b||")
    await costs.note("survey")
    assert (await worker.tick()).orphans
    await costs.note("tick")
    assert await store.due(later(30), 500) == []
    await costs.note("due")
    assert await store.promote(later(30), 500) == 0
    await costs.note("promote")
    assert await store.outdated("9999", 10) != []
    await costs.note("outdated")
    assert len(await store.list_jobs(limit=10)) == 10
    await costs.note("list jobs")
    await store.get_run(run.id)
    await costs.note("get run")
    assert len(await store.list_runs(RunFilter(limit=10))) == 10
    await costs.note("list runs")
    for job_id, state in product((None, jobs[0].id), STANDING_STILL - {RunState.READY}):
        assert await store.list_runs(RunFilter(job_id=job_id, states=frozenset({state}))) == []
        await costs.note(f"list {state} of {job_id}")
    assert (await store.list_nodes(limit=5))[0].id == worker.id
    await costs.note("list nodes")
    assert len(await store.list_queues("b", 1)) == 1
    await costs.note("list the second queue")
    assert len(await worker.claim(2)) == 2
    await costs.note("claim two")
    assert max(costs.noted.values()) <= FEW, costs.noted


async def test_a_newcomer_does_not_look_at_requested_runs(store: Store) -> None:
    """Firing ends the scheduled runs before it, and reads none of those of a backfill, however many."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1, on_overlap=Overlap.REPLACE)
    await fire(store, later(1))
    newcomer = planned(await store.get_due(job.id), later(2))
    assert newcomer[0].replaces
    for _ in range(2):
        await store.add_runs([a_request(job, due=later(3600)) for _ in range(RUNS // 2)], NOW)
    before = await read(store)
    assert await store.apply([newcomer], later(2)) == [True]
    assert await read(store) - before < 3 * FEW
    ready = await store.list_runs(RunFilter(states=frozenset({RunState.READY}), limit=RUNS))
    assert [run.nominal for run in ready] == [later(2)]


async def test_a_beat_at_rest_asks_for_little(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing runs, is ready or waits in a line, a beat is three statements in one packet."""
    packets: list[tuple[str, ...]] = []
    asked = TransactionSession.ask

    async def noted(session: TransactionSession, *statements: str) -> list[Answer]:
        packets.append(statements)
        return await asked(session, *statements)

    worker = await Worker.join(store)
    await worker.tick()
    monkeypatch.setattr(TransactionSession, "ask", noted)
    await worker.tick()
    assert [len(packet) for packet in packets] == [3]


async def test_a_long_line_is_not_walked(store: Store) -> None:
    """Serving a line of a semaphore or a key, and working beside it, reads as little as if nobody else waited."""
    worker = await Worker.join(store)
    mutex, keyed = await add_job(store, "mutex", semaphores=("db",)), await add_job(store, "keyed")
    free = await add_job(store, "free", queue="free")
    await add_runs(store, mutex, RUNS)
    await store.add_runs([a_request(keyed, concurrency_key=f"k{n % 2}") for n in range(RUNS)], NOW)
    holder, *others = await worker.claim(3 * RUNS)
    assert len(others) == 2
    await ask(store, "ANALYZE TABLE tokimori_runs")
    costs = Costs(store, await read(store))
    await worker.settle(holder)
    await costs.note("settle what holds a unit")
    (second,) = await worker.claim(3)
    await costs.note("claim the next")
    await worker.settle(others[0])
    await costs.note("settle one of a key")
    (third,) = await worker.claim(3)
    await costs.note("claim the next of the key")
    assert {second.run.job_id, third.run.job_id} == {"mutex", "keyed"}
    await worker.tick()
    await costs.note("tick")
    await add_runs(store, free, 1)
    await costs.note("request another")
    (other,) = await worker.claim(3)
    await worker.settle(other)
    await costs.note("claim and settle another")
    assert max(costs.noted.values()) <= FEW, costs.noted


async def test_of_a_longer_line_a_bounded_part_is_read(store: Store) -> None:
    """Showing a semaphore, standing in its line and changing its limit read what they tell, not all that wait."""
    worker, job = await Worker.join(store), await add_job(store, semaphores=("db",))
    await add_runs(store, job, 2)
    assert len(await worker.claim(2)) == 1
    (waits,) = await store.list_runs(RunFilter(states=frozenset({RunState.BLOCKED})))
    await ask(store, _WAIT_TOO.format(waits.id))
    await ask(store, "ANALYZE TABLE tokimori_runs")
    costs = Costs(store, await read(store))
    assert (await store.get_semaphore("db")).waiting == MOST_COUNTED
    await costs.note("show")
    late = await worker.acquire("db", rank=later(60))
    assert late.answer == InLine(ahead=MOST_COUNTED)
    await costs.note("join the line")
    assert await store.acquire(late.wish, NOW) == late.answer
    await costs.note("ask again")
    assert max(costs.noted.values()) <= 2 * MOST_COUNTED + FEW, costs.noted
    costs.noted.clear()
    early = await worker.acquire("db", rank=later(-60))
    assert early.answer == InLine(ahead=0)
    await costs.note("join before all")
    assert await store.acquire(early.wish, NOW) == early.answer
    await costs.note("ask again")
    await store.put_semaphore("db", 1, NOW)
    await costs.note("put a limit")
    assert max(costs.noted.values()) <= FEW, costs.noted
