"""Joins: one run, or one skip, for each root, however often all parents have ended; and none of it stays for ever."""

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_request, add_job, fire, later
from tests.contract.stores.test_dependents import add_child, after, runs_of
from tokimori.model.dependents import Join, On
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.policies import Overlap
from tokimori.model.retention import KEYS_KEPT, Expiry, expiry_of, expiry_of_deleted
from tokimori.model.run import Details, SkipReason, parents_of
from tokimori.model.transitions import RunState
from tokimori.ports.copying import ALL_ARRIVED, Arrival, Kind
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict

MONTH = KEYS_KEPT / 1e6 + 1
"""Seconds after which what ended now is not known any more."""


async def two_rounds(store: Store, worker: Worker) -> tuple[Job, list[Claimed], list[Claimed]]:
    """A child of all of two parents, and two runs of each parent for one root: one of each in either round."""
    parents = [await add_job(store, name, max_running=0) for name in ("one", "two")]
    child = await add_child(store, "child", after("one", "two"), join=Join.ALL)
    for _ in range(2):
        for parent in parents:
            await store.add_run(a_request(parent, root="s:0"), NOW)
    of_one, of_two = (
        [each for each in claimed if each.run.job_id == parent.id]
        for claimed in [await worker.claim()]
        for parent in parents
    )
    return child, [of_one[0], of_two[0]], [of_one[1], of_two[1]]


async def settle(store: Store, worker: Worker, *ended: Claimed, now: float = 0) -> None:
    """End these in one transaction."""
    changes = [worker.change(each, now=later(now)) for each in ended]
    assert set(await store.settle(changes, worker.id, later(now))) == {Verdict.APPLIED}


async def test_a_join_that_is_complete_twice_has_one_run(store: Store, worker: Worker) -> None:
    """All parents end once more for a root whose run ends in the same transaction: no other is made of it."""
    _, first, again = await two_rounds(store, worker)
    await settle(store, worker, *first)
    (born,) = await worker.claim(now=later(1))
    await settle(store, worker, born, *again, now=1)
    (run,) = await runs_of(store, "child")
    assert run.id == born.run.id


async def test_a_join_that_is_complete_twice_has_one_skip(store: Store, worker: Worker) -> None:
    """A paused child is skipped once for each root, and what ends after it is resumed makes no run of that root."""
    child, first, again = await two_rounds(store, worker)
    paused = replace(child, state=JobState.PAUSED)
    await store.replace_job(child, paused)
    await settle(store, worker, *first)
    await settle(store, worker, again[0])
    await store.replace_job(paused, child)
    await settle(store, worker, again[1], now=1)
    assert await runs_of(store, "child") == []
    (skip,) = await store.skips(JobId("child"))
    assert (skip.count, skip.reason) == (1, SkipReason.PAUSED)


async def test_a_join_knows_that_it_was_complete(store: Store, worker: Worker) -> None:
    """What is kept of a root says that all have arrived, and when the latest of them did."""
    _, first, again = await two_rounds(store, worker)
    await settle(store, worker, *first)
    await settle(store, worker, *again, now=5)
    kept: list[Arrival] = await store.export_rows(Kind.ARRIVALS, None, 10)  # type: ignore[assignment]
    assert [(each.root, each.parents, each.latest) for each in kept] == [
        (root, ALL_ARRIVED, later(5)) for root in ("r:s:0", "s:0")
    ]


async def test_a_join_names_the_runs_that_it_has_waited_for(store: Store, worker: Worker) -> None:
    """The child of all knows the ids of its parents' runs, also of one that ended in another transaction."""
    _, (one, two), (again, _) = await two_rounds(store, worker)
    await settle(store, worker, one)
    await settle(store, worker, again)
    await settle(store, worker, two, now=1)
    (run,) = await runs_of(store, "child")
    assert run.details == Details(parents=tuple(sorted(each.run.id for each in (one, again, two))))
    assert parents_of(run) == run.details.parents


@pytest.mark.parametrize("complete", [True, False])
async def test_old_arrivals_are_forgotten(store: Store, worker: Worker, *, complete: bool) -> None:
    """What waits for other parents, or has waited, is known as long as a request, and not for ever."""
    child, (one, two), _ = await two_rounds(store, worker)
    await settle(store, worker, *((one, two) if complete else (one,)))
    assert not await store.prune([_expiry(child, MONTH - 2)], 10)
    assert len(await store.export_rows(Kind.ARRIVALS, None, 10)) == 2
    assert not await store.prune([_expiry(child, MONTH)], 10)
    assert await store.export_rows(Kind.ARRIVALS, None, 10) == []


async def test_pruning_takes_no_more_arrivals_than_it_may(store: Store, worker: Worker) -> None:
    """Arrivals of many roots go some at a time."""
    parent = await add_job(store, "one", max_running=0)
    await add_job(store, "two")
    child = await add_child(store, "child", after("one", "two"), join=Join.ALL)
    for root in range(5):
        await store.add_run(a_request(parent, root=f"s:{root}"), NOW)
    await settle(store, worker, *await worker.claim())
    left, rest = [], [_expiry(child, MONTH)]
    while rest := [*await store.prune(rest, 2)]:
        left.append(len(await store.export_rows(Kind.ARRIVALS, None, 10)))
    assert (left, await store.export_rows(Kind.ARRIVALS, None, 10)) == ([8, 6, 4, 2, 0], [])


async def test_a_deleted_child_leaves_no_arrivals(store: Store, worker: Worker) -> None:
    """A deleted job is remembered until they are gone."""
    child, (one, _), _ = await two_rounds(store, worker)
    await settle(store, worker, one)
    await store.delete_job(child.id, NOW)
    early, late = (expiry_of_deleted(child.id, child.incarnation, later(at)) for at in (MONTH - 2, MONTH))
    assert not await store.prune([early], 10)
    assert await store.deleted_jobs(None, 10) == [(child.incarnation, child.id)]
    assert not await store.prune([late], 10)
    assert await store.deleted_jobs(None, 10) == []
    assert await store.export_rows(Kind.ARRIVALS, None, 10) == []


def _expiry(job: Job, seconds: float) -> Expiry:
    found = expiry_of(job, later(seconds))
    assert found is not None
    return found


async def cancelled_before_its_start(store: Store, how: str) -> Job:
    """A job of which a run is cancelled that has not started: its other parent has ended already."""
    terms = {"schedule": EVERY_SECOND, "next_due": later(1), "on_overlap": Overlap.REPLACE}
    parent = await add_job(store, "one", **(terms if how == "replaced" else {}))
    await add_child(store, "any", after("one", on=On.ALWAYS))
    await add_child(store, "on-success", after("one"))
    await add_child(store, "of-all", after("one", on=On.ALWAYS), join=Join.ALL)
    if how == "replaced":
        await fire(store, later(1))
        await fire(store, later(2))
    else:
        run = await store.add_run(a_request(parent, due=later(60 if how == "waiting" else 0)), NOW)
        await store.cancel_run(run.id, "enough", later(1))
    return parent


@pytest.mark.parametrize("how", ["ready", "waiting", "replaced"])
async def test_a_run_that_is_cancelled_before_its_start_has_ended(store: Store, how: str) -> None:
    """Children that run after whichever end follow it, and joins that wait for it go on; once."""
    await cancelled_before_its_start(store, how)
    (ended,) = [run for run in await runs_of(store, "one") if run.state is RunState.CANCELLED]
    assert [run.parent_id for run in await runs_of(store, "any")] == [ended.id]
    assert [run.parent_id for run in await runs_of(store, "of-all")] == [ended.id]
    assert await runs_of(store, "on-success") == []
    await store.cancel_run(ended.id, "once more", later(3))
    assert len(await runs_of(store, "any")) == 1


async def test_what_ends_with_its_job_has_no_children(store: Store) -> None:
    """A deleted job's waiting runs are cancelled, and its failure job is none of theirs."""
    await add_job(store, "repair")
    parent = a_job("one", on_failure_job="repair")
    await store.add_jobs([parent], (await store.family()).version)
    await store.add_run(a_request(parent), NOW)
    await store.delete_job(parent.id, NOW)
    assert await runs_of(store, "repair") == []
