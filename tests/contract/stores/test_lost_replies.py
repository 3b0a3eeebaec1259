"""Every writing method may be called again after its reply was lost: the second call finds what the first one did."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_job,
    a_node,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
    planned,
)
from tokimori.errors import Conflict, NotFound
from tokimori.model.job import JobState
from tokimori.model.run import Output, Skip, SkipReason
from tokimori.ports.nodes import Beat
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict


async def twice(call: Callable[[], Awaitable[object]]) -> list[object]:
    """What the method answers to the same call made twice."""
    return [await call(), await call()]


async def contents(store: Store) -> list[object]:
    """What a store holds, as far as people can see it."""
    runs = await store.list_runs(RunFilter(limit=10_000))
    jobs = await store.list_jobs()
    return [
        jobs,
        runs,
        [await store.attempts(run.id) for run in runs],
        [await store.skips(job.id) for job in jobs],
        await store.list_nodes(),
    ]


async def test_add_jobs(store: Store) -> None:
    """Jobs that were added are added already."""
    jobs = [a_job("a"), a_job("b")]
    await twice(lambda: store.add_jobs(jobs))
    assert await store.list_jobs() == jobs


async def test_replace_job(store: Store) -> None:
    """An edit that was made is no conflict with itself, even if the job has fired since."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    new = msgspec.structs.replace(job, version=2, reason="r", next_due=later(1))
    skip = Skip(first=later(-2), last=later(-1), count=2, reason=SkipReason.PAUSED)
    await store.replace_job(job, new, [skip])
    await fire(store, later(1))
    before = await contents(store)
    await store.replace_job(job, new, [skip])
    assert await contents(store) == before


async def test_pausing_again_does_not_undo_a_resume(store: Store) -> None:
    """A repeated pause whose first try was undone meanwhile is a conflict."""
    job = await add_job(store)
    paused = msgspec.structs.replace(job, version=2, state=JobState.PAUSED)
    resumed = msgspec.structs.replace(job, version=3)
    await store.replace_job(job, paused)
    await store.replace_job(paused, resumed)
    with pytest.raises(Conflict):
        await store.replace_job(job, paused)
    assert await store.get_job(job.id) == resumed


async def test_delete_job(store: Store) -> None:
    """A job that was deleted is not there any more."""
    job = await add_job(store)
    await store.delete_job(job.id, NOW)
    with pytest.raises(NotFound):
        await store.delete_job(job.id, NOW)


async def test_add_run(store: Store, worker: Worker) -> None:
    """A request that was kept is the same run, though it was claimed or has ended meanwhile."""
    run = a_request(await add_job(store))
    assert await twice(lambda: store.add_run(run, NOW)) == [run, run]
    (claimed,) = await worker.claim()
    assert await store.add_run(run, NOW) == claimed.run
    await worker.settle(claimed)
    assert (await store.add_run(run, NOW)).state == "succeeded"
    assert len(await store.list_runs(RunFilter())) == 1


async def test_cancel_run(store: Store) -> None:
    """A run that was cancelled is cancelled already."""
    (run,) = await add_runs(store, await add_job(store), 1)
    first, second = await twice(lambda: store.cancel_run(run.id, "enough", NOW))
    assert first == second


async def test_apply(store: Store, worker: Worker) -> None:
    """A plan that took effect says so again, though its run was carried out meanwhile or its job edited."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=0)
    (due,) = await store.due(later(2), 1)
    plan = planned(due, later(2))
    assert await twice(lambda: store.apply([plan], later(2))) == [[True], [True]]
    for claimed in await worker.claim():
        await worker.settle(claimed)
    stored = await store.get_job(job.id)
    await store.replace_job(stored, msgspec.structs.replace(stored, version=2))
    before = await contents(store)
    assert await store.apply([plan], later(2)) == [True]
    assert await contents(store) == before


async def test_apply_of_skips(store: Store) -> None:
    """A plan of skips alone that took effect says so again."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1)
    await fire(store, later(1))
    (due,) = await store.due(later(3), 1)
    plan, ids = planned(due, later(3))
    assert (ids, len(plan.skips)) == ([], 1)
    assert await twice(lambda: store.apply([(plan, ids)], later(3))) == [[True], [True]]
    await fire(store, later(4))
    assert await store.apply([(plan, ids)], later(3)) == [False]
    (skip,) = await store.skips(due.job.id)
    assert (skip.first, skip.last, skip.count) == (later(2), later(4), 3)


async def test_register(store: Store) -> None:
    """A node that is registered is not registered anew, though it has beaten since."""
    node = a_node()
    await store.register(node)
    await store.tick(Beat(node=node.id), NOW)
    await store.register(node)
    (known,) = await store.list_nodes()
    assert known.beat == 1


async def test_claim(store: Store, worker: Worker) -> None:
    """A claim asked for again is answered with the same runs, and takes no others."""
    await add_runs(store, await add_job(store), 5)
    claim = a_claim(worker.id, (await store.survey(NOW)).lanes, 2)
    first, second = await twice(lambda: store.claim(claim, NOW))
    assert first == second
    other = a_claim(worker.id, claim.lanes, 2)
    assert not {claimed.run.id for claimed in await store.claim(other, NOW)} & {
        claimed.run.id for claimed in await store.claim(claim, NOW)
    }
    assert len((await worker.tick()).owned) == 4


async def test_settle(store: Store, worker: Worker) -> None:
    """A settle that was written is answered `already applied`, from the run's next life too."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    change = worker.change(claimed)
    assert await twice(lambda: store.settle([change], worker.id, NOW)) == [
        [Verdict.APPLIED],
        [Verdict.ALREADY_APPLIED],
    ]


async def test_a_settle_that_was_written_before_its_node_was_declared_dead(
    store: Store, worker: Worker, other: Worker
) -> None:
    """A node that hears late that its settle was written is not told that it was lost."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    await worker.die(by=other)
    assert await worker.settle(claimed) is Verdict.ALREADY_APPLIED


async def test_bury(store: Store, worker: Worker, other: Worker) -> None:
    """A node that was declared dead is dead already."""
    assert await twice(lambda: store.bury(worker.id, 0, other.id, NOW)) == [True, True]


async def test_leave(store: Store, worker: Worker) -> None:
    """A node that has left has left already."""
    assert await twice(lambda: store.leave(worker.id, NOW)) == [True, True]


async def test_save_outputs(store: Store, worker: Worker) -> None:
    """An output that was saved is saved already."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    output = Output(run_id=claimed.run.id, attempt=1, size=3, tail=b"abc")
    await twice(lambda: store.save_outputs([output]))
    assert await store.output(claimed.run.id, 1) == output


async def test_promote_again_promotes_the_next(store: Store) -> None:
    """A promotion asked for again goes on with what is left."""
    job = await add_job(store)
    for second in (1, 2, 3):
        await store.add_run(a_request(job, due=later(second)), NOW)
    assert await twice(lambda: store.promote(later(9), 2)) == [2, 1]
