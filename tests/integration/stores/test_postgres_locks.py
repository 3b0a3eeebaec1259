"""Methods that meet: one is held open in a transaction of its own, and the other must wait for it, or go around it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_request,
    add_job,
    add_runs,
    later,
    planned,
    state_of,
)
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.test_dependents import runs_of
from tests.contract.stores.test_joins import settle, two_rounds
from tokimori.errors import Conflict
from tokimori.model.ids import NodeId, PermitId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause, lane_of
from tokimori.model.outcome import Released, RetryIn
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import Grant, InLine, NodeGone, UnitWish
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.stores.postgres import jobs, nodes, planning, runs, semaphores, working
from tokimori.stores.postgres.address import PostgresAddress
from tokimori.stores.postgres.connections import PostgresConnections, T, connect
from tokimori.stores.postgres.function_set import FunctionSet
from tokimori.stores.postgres.store import PostgresStore

WAITS = 0.4
"""Seconds after which a call that has not returned is taken to wait."""


class OneSession(PostgresConnections):
    """Statements of one session, in the transaction that is open there."""

    def __init__(self, address: PostgresAddress, functions: FunctionSet, session: Any) -> None:
        super().__init__(address, 1, functions)
        self._session = session

    async def _tried(self, work: Callable[[Any], Awaitable[T]], patience: float, statement: str) -> T:
        """Nothing is committed."""
        return await work(self._session)


@dataclass(frozen=True, slots=True)
class Scene:
    """A store, two nodes, and other programs' transactions."""

    store: Store
    address: PostgresAddress
    functions: FunctionSet
    worker: Worker
    other: Worker

    @asynccontextmanager
    async def held_open(self) -> AsyncIterator[OneSession]:
        """A transaction that is committed at the end of the block."""
        session = await connect(self.address)
        async with session.transaction():
            yield OneSession(self.address, self.functions, session)
        await session.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """An open, empty store, and two nodes."""
    store = STORES["postgres"](tmp_path)
    await store.open()
    await store.migrate()
    assert isinstance(store, PostgresStore)
    yield Scene(store, store._address, store._functions, await Worker.join(store), await Worker.join(store))
    await store.close()
    forget("postgres", tmp_path)


async def claimed_in(db: PostgresConnections, node: NodeId, job: Job) -> list[Claimed]:
    """What a claim takes in a transaction that is held open."""
    return (await working.claim(db, a_claim(node, [lane_of(job.definition)], 10), NOW))[0]


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
        await db.rows("SELECT FROM tokimori_jobs WHERE incarnation = $1 FOR UPDATE", job.incarnation)
        async with asyncio.timeout(WAITS):
            assert [each.run.job_id for each in await scene.worker.claim()] == ["free"]
    assert len(await scene.worker.claim()) == 2


async def test_claims_from_many_lanes_share_them(scene: Scene) -> None:
    """Of many lanes a claim locks no more than it takes, and one beside it takes what comes next, in order."""
    made = [await add_job(scene.store, f"job-{n}", queue=f"q{n}") for n in range(40)]
    for rank in range(80):
        await scene.store.add_run(a_request(made[rank % (3 if rank < 6 else 40)], rank=rank), NOW)
    async with scene.held_open() as db:
        theirs = a_claim(scene.other.id, [lane_of(job.definition) for job in made], 3)
        assert [each.run.rank for each in (await working.claim(db, theirs, NOW))[0]] == [0, 1, 2]
        assert [each.run.rank for each in await scene.worker.claim(3)] == [3, 4, 5]


async def test_a_claim_passes_few_runs_of_a_job_that_others_hold(scene: Scene) -> None:
    """Behind a thousand runs of a job whose gate somebody holds it looks for nothing: it looked at all that waited."""
    held, free = await add_job(scene.store, "held"), await add_job(scene.store, "free")
    await scene.store.add_runs([a_request(held, rank=n) for n in range(3000)], NOW)
    await scene.store.add_run(a_request(free, rank=500), NOW)
    read = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'tokimori_runs'"
    claim = a_claim(scene.worker.id, [lane_of(held.definition)], 4)
    taken = list[Claimed]()
    async with scene.held_open() as db, asyncio.timeout(10):
        await db.rows("SELECT FROM tokimori_jobs WHERE incarnation = $1 FOR UPDATE", held.incarnation)
        while not taken:  # a busy machine cuts a claim short, which says nothing of that where it got no gate
            async with scene.held_open() as claims:
                before = await claims.value(read)
                taken, _ = await working.claim(claims, claim, NOW)
                assert await claims.value(read) - before < 3000
    assert [each.run.job_id for each in taken] == ["free"]


async def test_a_pause_of_a_queue_waits_for_claims_under_way(scene: Scene) -> None:
    """It is acknowledged after what is being claimed was claimed."""
    job = await add_job(scene.store, queue="mail")
    await add_runs(scene.store, job, 2)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 2
        pause = await waits(scene.store.add_pause(Pause(queue="mail", since=NOW)))
    await pause


async def test_a_claim_does_not_wait_for_a_pause_of_a_queue(scene: Scene) -> None:
    """While a pause is being written nothing is claimed, and nothing waits for it."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        await planning.add_pause(db, Pause(queue="mail", since=NOW))
        async with asyncio.timeout(WAITS):
            assert await scene.worker.claim() == []
    assert len(await scene.worker.claim()) == 1


async def test_a_request_goes_before_a_pause(scene: Scene) -> None:
    """A run that is being added when its job is paused is added, and waits for the resume."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        run = await runs.add_run(db, a_request(job), NOW)
        pause = await waits(scene.store.replace_job(job, paused(job)))
    await pause
    assert (await scene.store.get_run(run.id)).lane is None


async def test_of_two_edits_at_once_one_wins(scene: Scene) -> None:
    """An edit that waited for another one finds that it has lost."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        await jobs.replace_job(db, job, paused(job), [])
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
        assert await planning.apply(db, [(plan, ids)], later(2)) == [True]
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
        assert (await working.settle(db, [change], scene.worker.id))[0] == [Verdict.APPLIED]
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
        assert await nodes.bury(db, scene.worker.id, 0, scene.other.id, NOW)
        async with asyncio.timeout(WAITS):
            assert await scene.worker.claim() == []


async def test_a_settle_waits_for_its_nodes_burial(scene: Scene) -> None:
    """What a node settles while it is being declared dead is lost: its heirs decide."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    (claimed,) = await scene.worker.claim()
    async with scene.held_open() as db:
        assert await nodes.bury(db, scene.worker.id, 0, scene.other.id, NOW)
        settle = await waits(scene.worker.settle(claimed))
    assert await settle is Verdict.LOST


async def test_a_beat_does_not_wait_for_claims(scene: Scene) -> None:
    """A claim that takes long delays no beat of its node."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        await claimed_in(db, scene.worker.id, job)
        async with asyncio.timeout(WAITS):
            assert (await scene.worker.tick()).owned == frozenset()  # the claim has not ended


async def test_two_settles_at_once_wake_two(scene: Scene) -> None:
    """Two places that are freed at the same time wake two runs, not the same one twice."""
    waiting = await add_runs(scene.store, await add_job(scene.store, max_running=2), 4)
    first, second = await scene.worker.claim()
    async with scene.held_open() as db:
        change = scene.worker.change(first)
        assert (await working.settle(db, [change], scene.worker.id))[0] == [Verdict.APPLIED]
        settle = await waits(scene.worker.settle(second))
    assert await settle is Verdict.APPLIED
    assert [str(await state_of(scene.store, run)) for run in waiting[2:]] == ["ready", "ready"]


async def test_a_cancel_that_meets_a_retry_ends_the_run_with_its_attempt(scene: Scene) -> None:
    """The retry waits for the cancel, and ends the run with what its attempt came to."""
    job = await add_job(scene.store)
    (run,) = await add_runs(scene.store, job, 1)
    (claimed,) = await scene.worker.claim()
    async with scene.held_open() as db:
        await runs.cancel_run(db, run.id, "nobody needs it", NOW)
        settle = await waits(scene.worker.settle(claimed, RetryIn(5)))
    assert await settle is Verdict.APPLIED
    ended = await scene.store.get_run(run.id)
    assert (ended.state, ended.error) == (RunState.CANCELLED, "nobody needs it")
    assert [attempt.outcome for attempt in await scene.store.attempts(run.id)] == ["retry"]


async def test_a_claim_goes_around_a_full_jobs_settle(scene: Scene) -> None:
    """While a place of a job is being freed, nobody counts its places; what is ready stays so."""
    job = await add_job(scene.store, max_running=1)
    await add_runs(scene.store, job, 1)
    (first,) = await scene.worker.claim()
    (late,) = await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        await working.settle(db, [scene.worker.change(first)], scene.worker.id)
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
        await working.settle(db, [scene.worker.change(claimed)], scene.worker.id)
        again = await waits(scene.store.add_run(a_request(job, "key"), NOW))
    assert (await again).id == run.id


async def test_runs_are_locked_in_order(scene: Scene) -> None:
    """Whoever settles several runs and has to wait for the first of them has locked none of those behind it."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 2)
    first, last = sorted(await scene.worker.claim(2), key=lambda claimed: claimed.run.id)
    changes = {run.run.id: scene.worker.change(run) for run in (first, last)}
    async with scene.held_open() as db:
        await working.settle(db, [changes[first.run.id]], scene.worker.id)
        both = await waits(scene.store.settle([changes[last.run.id], changes[first.run.id]], scene.worker.id, NOW))
        async with asyncio.timeout(WAITS):
            assert await scene.worker.settle(last) is Verdict.APPLIED
    assert await both == [Verdict.ALREADY_APPLIED, Verdict.ALREADY_APPLIED]


async def a_line(scene: Scene, name: str) -> tuple[Claimed, list[Run]]:
    """A run that holds this semaphore, and two that stand in its line."""
    job = await add_job(scene.store, semaphores=(name,))
    waiting = (await add_runs(scene.store, job, 3))[1:]
    (holder,) = await scene.worker.claim()
    return holder, waiting


async def test_a_claim_goes_around_semaphores_that_somebody_counts(scene: Scene) -> None:
    """While one claim counts the units of a semaphore no other does: what wants it stays ready, others are taken."""
    job, free = await add_job(scene.store, semaphores=("db",)), await add_job(scene.store, "free")
    await scene.store.put_semaphore("db", 1, NOW)
    runs_ = await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 1
        late = await add_job(scene.store, "late", semaphores=("db",))
        runs_ += await add_runs(scene.store, late, 1)
        await add_runs(scene.store, free, 1)
        async with asyncio.timeout(WAITS):
            assert [each.run.job_id for each in await scene.other.claim()] == ["free"]
        assert await state_of(scene.store, runs_[1]) == "ready"
    assert await scene.other.claim() == []
    assert await state_of(scene.store, runs_[1]) == "blocked"
    assert (await scene.store.get_semaphore("db")).used == 1


async def test_a_claim_goes_around_a_key_that_somebody_counts(scene: Scene) -> None:
    """While one claim counts the runs of a job's keys no other one does; what has a key stays ready."""
    job = await add_job(scene.store)
    await scene.store.add_run(a_request(job, concurrency_key="k"), NOW)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 1
        late = await scene.store.add_run(a_request(job, concurrency_key="k"), NOW)
        async with asyncio.timeout(WAITS):
            assert await scene.other.claim() == []
        assert await state_of(scene.store, late) == "ready"
    assert await scene.other.claim() == []
    assert (await scene.store.get_run(late.id)).blocked_on == "key"


async def test_a_claim_does_not_wait_for_who_makes_a_semaphore(scene: Scene) -> None:
    """Two claims that make semaphores at a time do not wait for each other, in whatever order they would."""
    both, back = [await add_job(scene.store, name, semaphores=("a", "b")) for name in ("both", "back")]
    await add_runs(scene.store, both, 1)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, both)) == 1
        await add_runs(scene.store, back, 1)
        async with asyncio.timeout(WAITS):
            assert await scene.other.claim() == []
    assert [each.limit for each in await scene.store.list_semaphores()] == [1, 1]


async def test_a_program_waits_for_the_count_of_a_claim(scene: Scene) -> None:
    """A program that asks while a claim takes the last unit is told that it waits."""
    await scene.store.put_semaphore("db", 1, NOW)
    job = await add_job(scene.store, semaphores=("db",))
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 1
        asked = await waits(scene.other.acquire("db"))
    assert (await asked).answer == InLine(ahead=0)


async def test_a_program_waits_for_its_nodes_burial(scene: Scene) -> None:
    """What a node asks for while it is being declared dead is refused: nobody would give it back."""
    async with scene.held_open() as db:
        assert await nodes.bury(db, scene.worker.id, 0, scene.other.id, NOW)
        asked = await waits(scene.worker.acquire("db"))
    assert (await asked).answer == NodeGone()
    assert await scene.store.list_semaphores() == []


async def test_a_burial_waits_for_what_its_programs_ask(scene: Scene) -> None:
    """What a program is being granted while its node is declared dead is free afterwards."""
    wish = UnitWish(id=PermitId("p"), node=scene.worker.id, semaphore="db", rank=NOW)
    async with scene.held_open() as db:
        assert await semaphores.acquire(db, wish, NOW) == Grant(token=1)
        burial = await waits(scene.store.bury(scene.worker.id, 0, scene.other.id, NOW))
    assert await burial
    assert (await scene.store.get_semaphore("db")).used == 0


async def test_two_settles_of_one_semaphore_serve_two(scene: Scene) -> None:
    """Two units that are freed at the same time wake two runs, not the same one twice."""
    await scene.store.put_semaphore("db", 2, NOW)
    waiting = await add_runs(scene.store, await add_job(scene.store, semaphores=("db",)), 4)
    first, second = await scene.worker.claim()
    async with scene.held_open() as db:
        assert (await working.settle(db, [scene.worker.change(first)], scene.worker.id))[1]
        settle = await waits(scene.worker.settle(second))
    assert await settle is Verdict.APPLIED
    assert [str(await state_of(scene.store, run)) for run in waiting[2:]] == ["ready", "ready"]


@pytest.mark.parametrize("what", ["cancel", "hold", "edit", "delete"])
async def test_who_changes_a_line_locks_its_semaphore_first(scene: Scene, what: str) -> None:
    """What touches runs in a line waits for who serves it, and has locked none of them: nobody waits in a circle."""
    holder, (head, _) = await a_line(scene, "db")
    job = await scene.store.get_job(holder.run.job_id)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "cancel": lambda: scene.store.cancel_run(head.id, "enough", NOW),
        "hold": lambda: scene.store.hold_run(head.id, "wait"),
        "edit": lambda: scene.store.replace_job(job, paused(job)),
        "delete": lambda: scene.store.delete_job(job.id, NOW),
    }
    async with scene.held_open() as db:
        await db.rows("SELECT FROM tokimori_semaphores WHERE name = 'db' FOR NO KEY UPDATE")
        call = await waits(calls[what]())
        assert len(await db.rows("SELECT id FROM tokimori_runs FOR UPDATE NOWAIT")) == 3
    await call


async def test_methods_that_deadlock_are_tried_again(scene: Scene) -> None:
    """A method that the server undoes because it met another one is tried again, unseen."""
    tried = 0

    async def work(session: Any) -> int:
        nonlocal tried
        tried += 1
        if tried < 3:
            await session.execute("DO $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '40P01'; END $$")
        return tried

    assert await scene.store.db.use(work) == 3  # type: ignore[attr-defined]


async def test_a_join_that_is_complete_again_waits_for_no_run(scene: Scene) -> None:
    """While its run is being settled the same parents end once more: they wait for nobody, and make no second run."""
    _, first, again = await two_rounds(scene.store, scene.worker)
    await settle(scene.store, scene.worker, *first)
    (born,) = await scene.worker.claim(now=later(1))
    async with scene.held_open() as db:
        assert (await working.settle(db, [scene.worker.change(born)], scene.worker.id))[0] == [Verdict.APPLIED]
        async with asyncio.timeout(WAITS):
            await settle(scene.store, scene.worker, *again)
    assert [run.id for run in await runs_of(scene.store, "child")] == [born.run.id]
