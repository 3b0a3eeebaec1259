"""Methods that meet: one is held open in a transaction of its own, and the other must wait for it, or go around it."""

import asyncio

import msgspec
import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    a_claim,
    a_job,
    a_request,
    add_job,
    add_runs,
    later,
    planned,
    state_of,
)
from tests.integration.stores.scenes import GOES_AROUND, Scene, claimed_in, paused, waits
from tokimori.errors import Conflict, Refused
from tokimori.model.ids import PermitId
from tokimori.model.job import JobState
from tokimori.model.lanes import Pause, lane_of
from tokimori.model.outcome import Released, RetryIn
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Beat
from tokimori.ports.semaphores import Grant, InLine, NodeGone, UnitRequest
from tokimori.ports.working import Verdict


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> str:
    """Both servers on which methods lock rows."""
    return str(request.param)


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
        await scene.lock_job(db, job)
        async with asyncio.timeout(GOES_AROUND):
            assert [each.run.job_id for each in await scene.worker.claim()] == ["free"]
    assert len(await scene.worker.claim()) == 2


async def test_claims_from_many_lanes_share_them(scene: Scene) -> None:
    """Of many lanes a claim locks no more than it takes, and one beside it takes what comes next, in order."""
    made = [await add_job(scene.store, f"job-{n}", queue=f"q{n}") for n in range(40)]
    for rank in range(80):
        await scene.store.add_run(a_request(made[rank % (3 if rank < 6 else 40)], rank=rank), NOW)
    async with scene.held_open() as db:
        theirs = a_claim(scene.other.id, [lane_of(job.definition) for job in made], 3)
        assert [each.run.rank for each in await db.claim(theirs, NOW)] == [0, 1, 2]
        assert [each.run.rank for each in await scene.worker.claim(3)] == [3, 4, 5]


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
        await db.add_pause(Pause(queue="mail", since=NOW))
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.worker.claim() == []
    assert len(await scene.worker.claim()) == 1


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
        async with asyncio.timeout(GOES_AROUND):
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
        async with asyncio.timeout(GOES_AROUND):
            assert (await scene.worker.tick()).owned == frozenset()  # the claim has not ended


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


async def test_a_cancel_that_meets_a_retry_ends_the_run_with_its_attempt(scene: Scene) -> None:
    """The retry waits for the cancel, and ends the run with what its attempt came to."""
    job = await add_job(scene.store)
    (run,) = await add_runs(scene.store, job, 1)
    (claimed,) = await scene.worker.claim()
    async with scene.held_open() as db:
        await db.cancel_run(run.id, "nobody needs it", NOW)
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
        await db.settle([scene.worker.change(first)], scene.worker.id, NOW)
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.other.claim() == []
    assert await state_of(scene.store, late) == "ready"
    assert [each.run.id for each in await scene.other.claim()] == [late.id]


async def test_claims_at_once_share_a_job_without_limit(scene: Scene) -> None:
    """Two claims of a job without limit take different runs, and neither waits."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 20)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 10
        async with asyncio.timeout(GOES_AROUND):
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


async def test_runs_are_locked_in_order(scene: Scene) -> None:
    """Whoever settles several runs and has to wait for the first of them has locked none of those behind it."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 2)
    first, last = sorted(await scene.worker.claim(2), key=lambda claimed: claimed.run.id)
    changes = {run.run.id: scene.worker.change(run) for run in (first, last)}
    async with scene.held_open() as db:
        await db.settle([changes[first.run.id]], scene.worker.id, NOW)
        both = await waits(scene.store.settle([changes[last.run.id], changes[first.run.id]], scene.worker.id, NOW))
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.worker.settle(last) is Verdict.APPLIED
    assert await both == [Verdict.ALREADY_APPLIED, Verdict.ALREADY_APPLIED]


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
        async with asyncio.timeout(GOES_AROUND):
            assert [each.run.job_id for each in await scene.other.claim()] == ["free"]
        assert await state_of(scene.store, runs_[1]) == "ready"
    assert await scene.other.claim() == []
    assert await state_of(scene.store, runs_[1]) == "blocked"
    assert (await scene.store.get_semaphore("db")).used == 1


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
        assert await db.bury(scene.worker.id, 0, scene.other.id, NOW)
        asked = await waits(scene.worker.acquire("db"))
    assert (await asked).answer == NodeGone()
    assert await scene.store.list_semaphores() == []


async def test_a_burial_waits_for_what_its_programs_ask(scene: Scene) -> None:
    """What a program is being granted while its node is declared dead is free afterwards."""
    wish = UnitRequest(id=PermitId("p"), node=scene.worker.id, semaphore="db", rank=NOW)
    async with scene.held_open() as db:
        assert await db.acquire(wish, NOW) == Grant(token=1)
        burial = await waits(scene.store.bury(scene.worker.id, 0, scene.other.id, NOW))
    assert await burial
    assert (await scene.store.get_semaphore("db")).used == 0


async def test_two_settles_of_one_semaphore_serve_two(scene: Scene) -> None:
    """Two units that are freed at the same time wake two runs, not the same one twice."""
    await scene.store.put_semaphore("db", 2, NOW)
    waiting = await add_runs(scene.store, await add_job(scene.store, semaphores=("db",)), 4)
    first, second = await scene.worker.claim()
    async with scene.held_open() as db:
        assert await db.settle([scene.worker.change(first)], scene.worker.id, NOW) == [Verdict.APPLIED]
        settle = await waits(scene.worker.settle(second))
    assert await settle is Verdict.APPLIED
    assert [str(await state_of(scene.store, run)) for run in waiting[2:]] == ["ready", "ready"]


async def test_jobs_without_limit_share_nothing(scene: Scene) -> None:
    """A settle of a job without limit waits for nobody who holds its gate."""
    job, other = await add_job(scene.store, max_running=0), await add_job(scene.store, "other", max_running=1)
    await add_runs(scene.store, job, 1)
    await add_runs(scene.store, other, 1)
    changes = [scene.worker.change(each) for each in await scene.worker.claim()]
    async with scene.held_open() as db:
        await scene.lock_job(db, job)
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.store.settle(changes, scene.worker.id, NOW) == [Verdict.APPLIED] * 2


async def test_a_claim_goes_around_a_run_that_is_being_cancelled(scene: Scene) -> None:
    """While a run is being cancelled the others of its lane are claimed."""
    job, free = await add_job(scene.store), await add_job(scene.store, "free")
    (run,) = await add_runs(scene.store, job, 1)
    await add_runs(scene.store, free, 1)
    async with scene.held_open() as db:
        assert (await db.cancel_run(run.id, "enough", NOW)).state == "cancelled"
        async with asyncio.timeout(GOES_AROUND):
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
