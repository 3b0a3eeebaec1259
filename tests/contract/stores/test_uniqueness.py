"""Requests that are unique: until its run has begun, or has ended, one run holds their key; and runs that expire."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_job, a_request, add_job, add_runs, later, state_of
from tests.contract.stores.test_pruning import expiry, prune
from tests.contract.stores.test_shared_keys import all_runs, shared
from tokimori.errors import Conflict
from tokimori.model.dependents import On, Parent
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Lost
from tokimori.model.policies import Retry
from tokimori.model.request import EXPIRY, InPlaceOf, Manner, Unique
from tokimori.model.run import Details
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store

START, END = Manner(unique=Unique.UNTIL_START), Manner(unique=Unique.UNTIL_END)
BOTH = pytest.mark.parametrize("manner", [START, END])


async def add_job_after(store: Store, parent: Job) -> None:
    """A job that runs after each end of another one."""
    child = a_job("after", parents=(Parent(job=parent.id, on=On.ALWAYS),))
    await store.add_jobs([child], family=(await store.family()).version)


def replacing(manner: Manner, in_place_of: InPlaceOf | None = None) -> Manner:
    """The same time, with a request that replaces a run."""
    return replace(manner, replaces=True, in_place_of=in_place_of)


@BOTH
async def test_a_run_that_has_not_begun_answers(store: Store, worker: Worker, manner: Manner) -> None:
    """Waiting, ready, in line or held: there is no second run of the key."""
    job = await add_job(store, max_running=1)
    first = await store.add_run(shared(job, due=later(60), payload="1"), NOW, manner)
    again = await store.add_run(shared(job, payload="2"), NOW, manner)
    assert (again.id, again.payload) == (first.id, "1")
    await add_runs(store, job, 1)
    await store.promote(later(60), 10)
    await worker.claim(now=later(60))
    assert await state_of(store, first) is RunState.BLOCKED
    assert (await store.add_run(shared(job), NOW, manner)).id == first.id
    await store.hold_run(first.id, "wait")
    assert (await store.add_run(shared(job), NOW, manner)).id == first.id
    assert (await store.add_run(shared(job), NOW, replacing(manner))).state is RunState.HELD
    assert (await store.add_run(shared(job, "other"), NOW, manner)).id != first.id


@BOTH
async def test_the_key_is_held_until_then_and_no_longer(store: Store, worker: Worker, manner: Manner) -> None:
    """Until the start: a run that has begun lets another one be; until the end: only one that has ended does."""
    job = await add_job(store)
    first = await store.add_run(shared(job), NOW, manner)
    (claimed,) = await worker.claim()
    second = await store.add_run(shared(job, now=later(1)), later(1), manner)
    assert (second.id == first.id) is (manner is END)
    await worker.settle(claimed)
    third = await store.add_run(shared(job, now=later(2)), later(2), manner)
    assert third.id == second.id if manner is START else third.id != first.id


@pytest.mark.parametrize("outcome", [Failed("again"), Lost("its node died")])
@BOTH
async def test_what_is_tried_again_takes_no_key_back(
    store: Store, worker: Worker, manner: Manner, outcome: Failed | Lost
) -> None:
    """A failed or lost attempt: until the end the run still answers; begun before, it goes on beside the next one."""
    job = await add_job(store, retry=Retry(attempts=2))
    first = await store.add_run(shared(job), NOW, manner)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, outcome)
    assert await state_of(store, first) in {RunState.WAITING, RunState.READY}
    second = await store.add_run(shared(job, now=later(1)), later(1), manner)
    assert (second.id == first.id) is (manner is END)
    await store.promote(later(2), 10)
    begun = await worker.claim(now=later(2))
    assert {each.run.id for each in begun} == {first.id, second.id}
    assert (await store.add_run(shared(job, now=later(3)), later(3), END)).id == second.id


@BOTH
async def test_a_request_replaces_what_has_not_begun(store: Store, worker: Worker, manner: Manner) -> None:
    """Payload and facts of the newer request; of a run that has begun there is another one."""
    job = await add_job(store)
    first = await store.add_run(shared(job, due=later(60), payload="1"), NOW, manner)
    facts = Details(requested_by="ann", unique=manner.unique)
    asked = shared(job, now=later(1), payload="2", details=facts)
    run = await store.add_run(asked, later(1), replacing(manner))
    assert (run.id, run.payload, run.details) == (first.id, "2", facts)
    assert (await store.get_run(first.id)).details == facts
    await store.promote(later(1), 10)
    await worker.claim(now=later(1))
    assert (await store.add_run(shared(job, now=later(2)), later(2), replacing(manner))).id != first.id


async def test_a_run_that_goes_on_holds_its_key_again(store: Store, worker: Worker) -> None:
    """When what was to replace it has ended, however often, it answers once more, until it has ended itself."""
    job = await add_job(store)
    first = await store.add_run(shared(job), NOW, END)
    (claimed,) = await worker.claim()
    for second in (1, 2):
        other = await store.add_run(shared(job, now=later(second)), later(second), replacing(END))
        assert other.id != first.id
        await store.cancel_run(other.id, "no", later(second))
        assert (await store.add_run(shared(job, now=later(3)), later(3), END)).id == first.id
    third = await store.add_run(shared(job, now=later(4)), later(4), replacing(END))
    fourth = await store.add_run(shared(job, now=later(5)), later(5), replacing(END))
    assert third.id == fourth.id != first.id
    await worker.settle(claimed, now=later(5))
    assert (await store.add_run(shared(job, now=later(6)), later(6), END)).id == third.id
    await store.cancel_run(third.id, "no", later(6))
    assert (await store.add_run(shared(job, now=later(7)), later(7), END)).id not in {first.id, third.id}


async def test_what_is_pruned_leaves_the_key_to_what_goes_on(store: Store, worker: Worker) -> None:
    """The run that was to replace it is forgotten, and later it itself."""
    job = await add_job(store)
    old = replace(expiry(job, later(40 * 86_400)), keep_runs=0)
    first = await store.add_run(shared(job), NOW, END)
    (claimed,) = await worker.claim()
    other = await store.add_run(shared(job, now=later(1)), later(1), replacing(END))
    await store.cancel_run(other.id, "no", later(1))
    assert await prune(store, old) and len(await all_runs(store)) == 1
    assert (await store.add_run(shared(job, now=later(2)), later(2), END)).id == first.id
    await worker.settle(claimed, now=later(3))
    assert await prune(store, old) and not await all_runs(store)
    third = await store.add_run(shared(job, now=later(4)), later(4), END)
    assert third.id != first.id and [run.id for run in await all_runs(store)] == [third.id]


async def test_what_expires_is_noted_with_the_run(store: Store) -> None:
    """For each that is made, alone or with others, and for the new moment of one that is replaced; for no other one."""
    job = await add_job(store)
    facts = [Details(unique="until_end", expires=later(60 + n)) for n in range(4)]
    first = await store.add_run(shared(job, details=facts[0]), NOW, END)
    assert (await store.add_run(shared(job, details=facts[1]), NOW, END)).id == first.id
    await store.add_run(shared(job, details=facts[2]), NOW, replacing(END))
    plain = [replace(a_request(job), details=each) for each in (facts[3], Details(), facts[3])]
    await store.add_runs(plain, NOW)
    await store.add_runs(plain, NOW)
    wanted = [(facts[0], first), (facts[2], first), (facts[3], plain[0]), (facts[3], plain[2])]
    found = await store.list_documents(EXPIRY)
    assert [each.name for each in found] == sorted(f"{each.expires:020d} {run.id}" for each, run in wanted)
    for each in found:
        await store.delete_document(EXPIRY, each.name, each.version)


async def test_a_replacement_is_compared(store: Store, worker: Worker) -> None:
    """It holds for the run and the payload that were read; where either has changed, nothing is written."""
    job = await add_job(store)
    with pytest.raises(Conflict):
        await store.add_run(shared(job), NOW, replacing(END, InPlaceOf(shared(job).id, None)))
    first = await store.add_run(shared(job), NOW, replacing(END, InPlaceOf()))
    for wrong in (InPlaceOf(), InPlaceOf(first.id, "other"), InPlaceOf(shared(job).id, None)):
        with pytest.raises(Conflict):
            await store.add_run(shared(job, payload="2"), NOW, replacing(END, wrong))
    asked = shared(job, payload="2")
    right = replacing(END, InPlaceOf(first.id, None))
    assert (await store.add_run(asked, NOW, right)).payload == "2"
    assert (await store.add_run(asked, NOW, right)).payload == "2"  # asked again after a lost reply
    await store.promote(later(1), 10)
    await worker.claim()
    with pytest.raises(Conflict):
        await store.add_run(shared(job, payload="3"), NOW, replacing(END, InPlaceOf(first.id, "2")))
    assert [run.payload for run in await all_runs(store)] == ["2"]


@BOTH
async def test_requests_at_once_make_one_unique_run(store: Store, manner: Manner) -> None:
    """Twenty callers at the same moment: one makes the run, the others get it."""
    job = await add_job(store)
    runs = await asyncio.gather(*(store.add_run(shared(job), NOW, manner) for _ in range(20)))
    assert len({run.id for run in runs}) == len(await all_runs(store)) == 1


async def test_what_a_clock_made_that_was_ahead_holds_its_key(store: Store, worker: Worker) -> None:
    """A run that was made two days ahead answers as long as it lives, and then hinders nobody."""
    job, ahead = await add_job(store), later(2 * 86_400)
    first = await store.add_run(shared(job, now=ahead), ahead, END)
    assert (await store.add_run(shared(job), NOW, END)).id == first.id
    (claimed,) = await worker.claim(now=ahead)
    await worker.settle(claimed, now=ahead)
    second = await store.add_run(shared(job), NOW, END)
    assert second.id != first.id
    assert (await store.add_run(shared(job, now=later(1)), later(1), END)).id == second.id


async def test_a_run_that_has_not_begun_is_skipped(store: Store, worker: Worker) -> None:
    """It ends as skipped, passes its turn on, and no job runs after it; the moment of a changed run is another's."""
    job = await add_job(store, max_running=1)
    await add_job_after(store, job)
    await add_runs(store, job, 1)
    woken, other = [await store.add_run(shared(job, key, rank=NOW + rank), NOW, END) for rank, key in enumerate("ab")]
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert [await state_of(store, run) for run in (woken, other)] == [RunState.READY, RunState.BLOCKED]
    assert (await store.cancel_run(woken.id, "too late", later(1), 1)).state is RunState.READY
    ended = await store.cancel_run(woken.id, "too late", later(1), 0)
    assert (ended.state, ended.error, ended.ended, ended.attempt) == (RunState.SKIPPED, "too late", later(1), 0)
    assert await state_of(store, other) is RunState.READY
    assert other.id in {each.run.id for each in await worker.claim(now=later(1))}
    assert (await store.cancel_run(other.id, "too late", later(2), 1)).cancel is None
    assert (await store.cancel_run(woken.id, "again", later(2), 0)).error == "too late"
    assert len([run for run in await all_runs(store) if run.job_id == "after"]) == 1
