"""Methods that meet: one is held open in a transaction of its own, and the other must wait for it, or go around it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_job,
    a_request,
    add_job,
    add_runs,
    later,
    planned,
    state_of,
)
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.test_limits import with_limit
from tokimori.clock import SystemClock
from tokimori.errors import Conflict, Refused, StoreUnavailable
from tokimori.model.ids import NodeId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Released
from tokimori.ports.nodes import Beat
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.stores.mysql import limits, moves
from tokimori.stores.mysql.address import MysqlAddress
from tokimori.stores.mysql.sessions import Sessions, T, Transaction, TransactionSession, connect
from tokimori.stores.mysql.statements import SHARED, Answer, sql
from tokimori.stores.mysql.store import MysqlStore

WAITS = 0.4
"""Seconds after which a call that has not returned is taken to wait."""


class Uncommitted(Transaction):
    """A transaction that somebody else commits."""

    def __init__(self, session: TransactionSession) -> None:
        super().__init__(session)
        self._begun = True

    async def commit(self, *statements: str) -> list[Answer]:
        """All but that."""
        return await self.ask(*statements) if statements else []

    async def undo(self) -> None:
        """Neither."""


class OneSession(Sessions):
    """One session, in the transaction that is open there."""

    def __init__(self, address: MysqlAddress, session: TransactionSession) -> None:
        super().__init__(address, 1)
        self._session = session

    async def use(self, work: Callable[[TransactionSession], Awaitable[T]], patience: float = 4) -> T:
        """Nothing is committed."""
        return await work(self._session)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Nothing is committed."""
        return await work(Uncommitted(self._session))


@dataclass(frozen=True, slots=True)
class Scene:
    """A store, two nodes, and other programs' transactions."""

    store: Store
    address: MysqlAddress
    worker: Worker
    other: Worker

    @asynccontextmanager
    async def held_open(self) -> AsyncIterator[MysqlStore]:
        """A store that does everything in one transaction, which is committed at the end of the block."""
        session = await connect(self.address)
        await session.ask("SET SESSION /*M!100600 idle_transaction_timeout = 0 */", "START TRANSACTION")
        store = MysqlStore(self.address, SystemClock())
        sessions = OneSession(self.address, session)
        store._opened = sessions, sessions
        try:
            yield store
            await session.ask("COMMIT")
        finally:
            await session.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """An open, empty store, and two nodes."""
    store = STORES["mariadb"](tmp_path)
    await store.open()
    await store.migrate()
    yield Scene(store, store.db._address, await Worker.join(store), await Worker.join(store))  # type: ignore[attr-defined]
    await store.close()
    forget("mariadb", tmp_path)


async def claimed_in(store: Store, node: NodeId, job: Job) -> list[Claimed]:
    """What a claim takes in a transaction that is held open."""
    return await store.claim(a_claim(node, [lane_of(job.definition)], 10), NOW)


async def waits(call: Awaitable[T]) -> "asyncio.Future[T]":
    """The call, which must not return yet."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(WAITS)
    assert not task.done()
    return task


def paused(job: Job) -> Job:
    """The job after a pause."""
    return msgspec.structs.replace(job, state=JobState.PAUSED, version=job.version + 1)


@pytest.mark.parametrize("limit", [0, 2])
async def test_a_pause_waits_for_claims_under_way(scene: Scene, limit: int) -> None:
    """A pause is acknowledged after what is being claimed was claimed."""
    job = await add_job(scene.store, max_running=limit)
    await add_runs(scene.store, job, 2)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 2
        pause = await waits(scene.store.replace_job(job, paused(job)))
    await pause
    assert (await scene.store.get_job(job.id)).state is JobState.PAUSED


@pytest.mark.parametrize("limit", [0, 2])
async def test_a_claim_goes_around_a_pause_under_way(scene: Scene, limit: int) -> None:
    """While a pause is under way, its job's runs are neither claimed nor waited for; others are."""
    job, free = await add_job(scene.store, max_running=limit), await add_job(scene.store, "free")
    await add_runs(scene.store, job, 2)
    await add_runs(scene.store, free, 1)
    async with scene.held_open() as db:
        await db.db.ask(sql("SELECT 1 FROM tokimori_jobs WHERE incarnation = %s FOR UPDATE", job.incarnation))
        async with asyncio.timeout(WAITS):
            assert [each.run.job_id for each in await scene.worker.claim()] == ["free"]
    assert len(await scene.worker.claim()) == 2


async def test_a_beat_goes_around_runs_that_others_hold(scene: Scene) -> None:
    """While somebody has locked runs that are to follow their job, a beat moves none of them, and does not wait."""
    job = await add_job(scene.store)
    run = (await add_runs(scene.store, job, 3))[0]
    for statement in (moves.begin(job.incarnation), "UPDATE tokimori_jobs SET lane = 'other||'"):
        await scene.store.db.ask(statement)  # type: ignore[attr-defined]
    async with scene.held_open() as db:
        await db.db.ask(sql("SELECT 1 FROM tokimori_runs WHERE id = %s FOR UPDATE", run.id))
        async with asyncio.timeout(WAITS):
            await scene.worker.tick()
        assert (await scene.store.get_run(run.id)).lane == run.lane
    await scene.worker.tick()
    assert (await scene.store.get_run(run.id)).lane == "other||"


async def test_a_request_goes_before_a_pause(scene: Scene) -> None:
    """A run that is being added when its job is paused is added, and waits for the resume."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        run = await db.add_run(a_request(job), NOW)
        pause = await waits(scene.store.replace_job(job, paused(job)))
    await pause
    assert (await scene.store.get_run(run.id)).lane is None


async def test_of_two_edits_at_once_one_wins(scene: Scene) -> None:
    """An edit that waited for another one finds that it has lost."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        await db.replace_job(job, paused(job))
        edit = await waits(scene.store.replace_job(job, msgspec.structs.replace(paused(job), reason="second")))
    with pytest.raises(Conflict):
        await edit
    assert await scene.store.get_job(job.id) == paused(job)


async def test_a_plan_goes_before_a_delete(scene: Scene) -> None:
    """Runs that are being planned when their job is deleted are cancelled with it."""
    job = await add_job(scene.store, schedule=EVERY_SECOND, next_due=later(1), max_running=0)
    (due,) = await scene.store.due(later(2), 1)
    plan, ids = planned(due, later(2))
    async with scene.held_open() as db:
        assert await db.apply([(plan, ids)], later(2)) == [True]
        delete = await waits(scene.store.delete_job(job.id, later(2)))
    await delete
    assert {str((await scene.store.get_run(run_id)).state) for run_id in ids} == {"cancelled"}


async def test_a_retry_goes_before_a_delete(scene: Scene) -> None:
    """A run that is being given back when its job is deleted does not stay behind without one."""
    job = await add_job(scene.store)
    (run,) = await add_runs(scene.store, job, 1)
    (claimed,) = await scene.worker.claim()
    change = scene.worker.change(claimed, Released("later"))
    async with scene.held_open() as db:
        assert await db.settle([change], scene.worker.id, NOW) == [Verdict.APPLIED]
        delete = await waits(scene.store.delete_job(job.id, NOW))
    await delete
    assert await state_of(scene.store, run) == "cancelled"


async def test_a_burial_waits_for_claims_under_way(scene: Scene) -> None:
    """A node is declared dead after what it is claiming was claimed, so that its heirs find it."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 1
        burial = await waits(scene.store.bury(scene.worker.id, 0, scene.other.id, NOW))
    assert await burial
    assert len(await scene.store.orphans(10)) == 1


async def test_a_claim_does_not_wait_for_a_burial(scene: Scene) -> None:
    """While a node is being declared dead it gets nothing, at once."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        assert await db.bury(scene.worker.id, 0, scene.other.id, NOW)
        async with asyncio.timeout(WAITS):
            assert await scene.worker.claim() == []


async def test_a_settle_waits_for_its_nodes_burial(scene: Scene) -> None:
    """What a node settles while it is being declared dead is lost: its heirs decide."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    (claimed,) = await scene.worker.claim()
    async with scene.held_open() as db:
        assert await db.bury(scene.worker.id, 0, scene.other.id, NOW)
        settle = await waits(scene.worker.settle(claimed))
    assert await settle is Verdict.LOST


async def test_a_beat_does_not_wait_for_claims(scene: Scene) -> None:
    """A claim that takes long delays no beat of its node."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        await claimed_in(db, scene.worker.id, job)
        async with asyncio.timeout(WAITS):
            await scene.worker.tick()


async def test_two_settles_at_once_wake_two(scene: Scene) -> None:
    """Two places that are freed at the same time wake two runs, not the same one twice."""
    waiting = await add_runs(scene.store, await add_job(scene.store, max_running=2), 4)
    first, second = await scene.worker.claim()
    async with scene.held_open() as db:
        change = scene.worker.change(first)
        assert await db.settle([change], scene.worker.id, NOW) == [Verdict.APPLIED]
        settle = await waits(scene.worker.settle(second))
    assert await settle is Verdict.APPLIED
    assert [str(await state_of(scene.store, run)) for run in waiting[2:]] == ["ready", "ready"]


async def test_a_claim_goes_around_a_full_jobs_settle(scene: Scene) -> None:
    """While a place of a job is being freed, nobody counts its places; what is ready stays so."""
    job = await add_job(scene.store, max_running=1)
    await add_runs(scene.store, job, 1)
    (first,) = await scene.worker.claim()
    (late,) = await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        await db.settle([scene.worker.change(first)], scene.worker.id, NOW)
        async with asyncio.timeout(WAITS):
            assert await scene.other.claim() == []
    assert await state_of(scene.store, late) == "ready"
    assert [each.run.id for each in await scene.other.claim()] == [late.id]


async def test_claims_at_once_share_a_job_without_limit(scene: Scene) -> None:
    """Two claims of a job without limit take different runs, and neither waits."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 20)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 10
        async with asyncio.timeout(WAITS):
            assert len(await scene.other.claim(10)) == 10


async def test_an_origin_that_is_being_finished_is_not_added_again(scene: Scene) -> None:
    """A request under a key whose run is just moving to the history is that run."""
    job = await add_job(scene.store)
    run = await scene.store.add_run(a_request(job, "key"), NOW)
    (claimed,) = await scene.worker.claim()
    async with scene.held_open() as db:
        await db.settle([scene.worker.change(claimed)], scene.worker.id, NOW)
        again = await waits(scene.store.add_run(a_request(job, "key"), NOW))
    assert (await again).id == run.id


async def test_jobs_without_limit_share_nothing(scene: Scene) -> None:
    """A settle of a job without limit waits for nobody who holds its gate."""
    job, other = await add_job(scene.store, max_running=0), await add_job(scene.store, "other", max_running=1)
    await add_runs(scene.store, job, 1)
    await add_runs(scene.store, other, 1)
    changes = [scene.worker.change(each) for each in await scene.worker.claim()]
    async with scene.held_open() as db:
        await db.db.ask(sql("SELECT 1 FROM tokimori_jobs WHERE incarnation = %s FOR UPDATE", job.incarnation))
        async with asyncio.timeout(WAITS):
            assert await scene.store.settle(changes, scene.worker.id, NOW) == [Verdict.APPLIED] * 2


async def test_a_limit_that_comes_while_runs_end_is_counted_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settle that finds that its job has got a limit meanwhile begins anew, with the gate that it did not ask for."""
    lock_gates = Mock(wraps=limits.lock_gates)
    monkeypatch.setattr(limits, "lock_gates", lock_gates)
    job = await add_job(scene.store, max_running=0)
    await add_runs(scene.store, job, 3)
    first, second = await scene.worker.claim(2)
    async with scene.held_open() as db:
        await db.replace_job(job, with_limit(job, 1))
        settle = await waits(scene.store.settle([scene.worker.change(first)], scene.worker.id, NOW))
    assert await settle == [Verdict.APPLIED]
    assert lock_gates.call_count == 2
    assert await scene.other.claim() == []
    await scene.worker.settle(second)
    assert len(await scene.other.claim()) == 1


async def test_a_claim_goes_around_a_run_that_is_being_cancelled(scene: Scene) -> None:
    """While a run is being cancelled the others of its lane are claimed."""
    job, free = await add_job(scene.store), await add_job(scene.store, "free")
    (run,) = await add_runs(scene.store, job, 1)
    await add_runs(scene.store, free, 1)
    async with scene.held_open() as db:
        assert (await db.cancel_run(run.id, "enough", NOW)).state == "cancelled"
        async with asyncio.timeout(WAITS):
            assert [each.run.job_id for each in await scene.worker.claim()] == ["free"]


async def test_one_of_two_that_add_the_same_id_wins(scene: Scene) -> None:
    """Who adds a job while another one adds its id waits, and then finds it taken."""
    async with scene.held_open() as db:
        await add_job(db, "job")
        second = await waits(scene.store.add_jobs([a_job("a"), a_job("job")]))
    with pytest.raises(Conflict):
        await second
    assert [job.id for job in await scene.store.list_jobs()] == ["job"]


async def test_a_beat_of_a_node_that_is_being_buried_is_none(scene: Scene) -> None:
    """A node that beats while it is declared dead hears that it is."""
    async with scene.held_open() as db:
        assert await db.bury(scene.worker.id, 0, scene.other.id, NOW)
        beat = await waits(scene.store.tick(Beat(node=scene.worker.id), NOW))
    assert await beat is None


async def test_of_two_plans_at_once_one_wins(scene: Scene) -> None:
    """A plan that waited for another one of the same job finds that it has lost."""
    await add_job(scene.store, schedule=EVERY_SECOND, next_due=later(1), max_running=0)
    (due,) = await scene.store.due(later(2), 1)
    async with scene.held_open() as db:
        assert await db.apply([planned(due, later(2))], later(2)) == [True]
        second = await waits(scene.store.apply([planned(due, later(2))], later(2)))
    assert await second == [False]


async def test_a_request_waits_for_a_pause_under_way(scene: Scene) -> None:
    """A request that meets a pause is refused, not kept in a lane that nobody moves."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        await db.replace_job(job, paused(job))
        request = await waits(scene.store.add_run(a_request(job), NOW))
    with pytest.raises(Refused):
        await request


async def test_a_delete_finds_what_was_added_while_it_waited(scene: Scene) -> None:
    """A run that is added before the job's deletion gets hold of the gate is cancelled with the others."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        await db.db.ask(sql(f"SELECT 1 FROM tokimori_jobs WHERE incarnation = %s {SHARED}", job.incarnation))
        delete = await waits(scene.store.delete_job(job.id, NOW))
        run = await db.add_run(a_request(job), NOW)
    await delete
    assert await state_of(scene.store, run) == "cancelled"


async def test_a_retry_waits_for_a_delete_under_way(scene: Scene) -> None:
    """A run that is given back while its job is deleted ends: it does not stay behind without one."""
    job = await add_job(scene.store)
    (run,) = await add_runs(scene.store, job, 1)
    (claimed,) = await scene.worker.claim()
    async with scene.held_open() as db:
        await db.delete_job(job.id, NOW)
        settle = await waits(scene.worker.settle(claimed, Released("later")))
    assert await settle is Verdict.APPLIED
    assert await state_of(scene.store, run) == "cancelled"


async def test_of_two_nodes_that_bury_each_other_one_lives(scene: Scene) -> None:
    """Who is being declared dead declares nobody dead."""
    async with scene.held_open() as db:
        assert await db.bury(scene.worker.id, 0, scene.other.id, NOW)
        burial = await waits(scene.store.bury(scene.other.id, 0, scene.worker.id, NOW))
    assert not await burial
    await scene.other.tick()


async def test_a_burial_waits_for_a_beat_under_way(scene: Scene) -> None:
    """A node whose beat is just being written is alive."""
    async with scene.held_open() as db:
        assert await db.tick(Beat(node=scene.worker.id), NOW) is not None
        burial = await waits(scene.store.bury(scene.worker.id, 0, scene.other.id, NOW))
    assert not await burial


async def test_places_are_counted_as_of_now(scene: Scene) -> None:
    """A transaction that read before it waited for a gate sees what was committed meanwhile."""
    job = await add_job(scene.store, max_running=2)
    await add_runs(scene.store, job, 2)

    async def look_twice(transaction: Transaction) -> list[limits.Places]:
        places = []
        for _ in range(2):
            (counted,) = await transaction.ask(limits.count_places([job.incarnation]))
            places.append(limits.places_of(counted)[job.incarnation])
            await scene.worker.claim(1)
        return places

    assert [place.running for place in await scene.store.db.transact(look_twice)] == [0, 1]  # type: ignore[attr-defined]


async def test_methods_that_deadlock_are_tried_again(scene: Scene) -> None:
    """Of two transactions that wait for each other one is undone and tried again, unseen."""
    first, second = await add_job(scene.store, "a"), await add_job(scene.store, "b")
    both = asyncio.Barrier(2)
    tried = 0

    async def work(transaction: Transaction, *jobs: Job) -> None:
        nonlocal tried
        tried += 1
        for job in jobs:
            await transaction.ask(sql("UPDATE tokimori_jobs SET version = 9 WHERE incarnation = %s", job.incarnation))
            if tried <= 2 and job is jobs[0]:
                await both.wait()
        await transaction.commit()

    db: Sessions = scene.store.db  # type: ignore[attr-defined]
    orders = ((first, second), (second, first))
    await asyncio.gather(*(db.transact(lambda transaction, jobs=jobs: work(transaction, *jobs)) for jobs in orders))  # type: ignore[misc]
    assert tried == 3
    assert [job.version for job in await scene.store.list_jobs()] == [9, 9]


async def test_who_freezes_holds_nothing_for_long(scene: Scene) -> None:
    """A session that says nothing within a transaction is ended by the server, and what it held is free within 4 s."""
    job = await add_job(scene.store)
    session = await connect(scene.address)
    await session.ask("START TRANSACTION", sql("SELECT 1 FROM tokimori_jobs FOR UPDATE"))
    began = asyncio.get_running_loop().time()
    while True:
        try:
            await scene.store.delete_job(job.id, NOW)
            break
        except StoreUnavailable as error:
            assert "locked for over 2 s" in error.message
    assert asyncio.get_running_loop().time() - began < 6
    session.cut()
    await asyncio.sleep(0)
