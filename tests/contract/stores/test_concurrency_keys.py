"""Concurrency keys: within a job, runs of one key are limited, and those of others are not delayed."""

from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_request, add_job, fire, later, state_of
from tests.contract.stores.test_limits import states
from tokimori.clock import Moment
from tokimori.model.dependents import Parent
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Failed, Hold, Released, RetryAt
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store


async def add_keyed(store: Store, job: Job, keys: str) -> list[Run]:
    """Request a run for each letter, with that key; the first is first in line."""
    first = NOW - len(keys)
    requests = [a_request(job, due=Moment(first + n), concurrency_key=key) for n, key in enumerate(keys)]
    return [await store.add_run(run, NOW) for run in requests]


async def lines(store: Store, runs: list[Run]) -> list[str | None]:
    """In which lines these runs stand."""
    return [(await store.get_run(run.id)).blocked_on for run in runs]


def changed(job: Job, **terms: object) -> Job:
    """The job after an edit."""
    return replace(job, definition=replace(job.definition, **terms), version=job.version + 1)


async def test_a_full_key_delays_only_its_own_runs(store: Store, worker: Worker) -> None:
    """Of each key one run is claimed; the others stand in its line, and say so."""
    runs = await add_keyed(store, await add_job(store), "aabab")
    assert [each.run.id for each in await worker.claim()] == [runs[0].id, runs[2].id]
    assert await states(store, runs) == ["running", "blocked", "running", "blocked", "blocked"]
    assert await lines(store, runs) == [None, "key", None, "key", "key"]


async def test_as_many_runs_of_a_key_run_as_the_job_says(store: Store, worker: Worker) -> None:
    """`max_running_per_key` bounds each key by itself."""
    runs = await add_keyed(store, await add_job(store, max_running_per_key=2), "aaabbb")
    await worker.claim()
    assert await states(store, runs) == ["running", "running", "blocked"] * 2


async def test_runs_without_a_key_are_not_limited(store: Store, worker: Worker) -> None:
    """The limit of keys concerns only runs that have one."""
    job = await add_job(store)
    for _ in range(3):
        await store.add_run(a_request(job), NOW)
    assert len(await worker.claim()) == 3


async def test_a_key_counts_within_its_job(store: Store, worker: Worker) -> None:
    """Two jobs that use the same key do not limit each other."""
    for name in ("one", "two"):
        await add_keyed(store, await add_job(store, name), "a")
    assert len(await worker.claim()) == 2


async def test_the_end_of_an_attempt_wakes_the_next_of_its_key(store: Store, worker: Worker) -> None:
    """Whatever ends it, the next run of the same key is ready, and no other."""
    runs = await add_keyed(store, await add_job(store), "aaaaab")
    for n, outcome in enumerate((None, Failed("no"), Hold("look"), RetryAt(later(60)))):
        claimed = next(each for each in await worker.claim() if each.run.concurrency_key == "a")
        assert claimed.run.id == runs[n].id
        await worker.settle(claimed, outcome)
        assert await state_of(store, runs[n + 1]) is RunState.READY
    assert await states(store, runs) == ["succeeded", "failed", "held", "waiting", "ready", "running"]


async def test_a_released_run_comes_before_those_behind_it(store: Store, worker: Worker) -> None:
    """A run that is given back is claimed again before one that was woken meanwhile."""
    runs = await add_keyed(store, await add_job(store), "aa")
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Released("later"))
    assert [each.run.id for each in await worker.claim()] == [runs[0].id]
    assert await states(store, runs) == ["running", "blocked"]


async def test_a_woken_run_that_is_cancelled_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """Cancelled or held, the head of the line wakes the next one."""
    runs = await add_keyed(store, await add_job(store), "aaaa")
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    await store.cancel_run(runs[1].id, "enough", NOW)
    assert await states(store, runs) == ["succeeded", "cancelled", "ready", "blocked"]
    await store.hold_run(runs[2].id, "wait")
    assert await states(store, runs) == ["succeeded", "cancelled", "held", "ready"]


async def test_who_left_the_line_stands_in_none(store: Store, worker: Worker) -> None:
    """A blocked run that is cancelled or held is blocked on nothing, and wakes nobody while the key is full."""
    runs = await add_keyed(store, await add_job(store), "aaaa")
    await worker.claim()
    await store.cancel_run(runs[1].id, "enough", NOW)
    await store.hold_run(runs[2].id, "wait")
    assert await lines(store, runs) == [None, None, None, "key"]


async def test_the_limit_of_the_job_comes_first(store: Store, worker: Worker) -> None:
    """A run that both the job and its key refuse waits for the job; woken there, it finds the line of its key."""
    runs = await add_keyed(store, await add_job(store, max_running=1), "aab")
    (claimed,) = await worker.claim()
    assert await lines(store, runs) == [None, None, None]
    await worker.settle(claimed)
    (second,) = await worker.claim()
    assert second.run.id == runs[1].id
    assert await states(store, runs) == ["succeeded", "running", "blocked"]


async def test_a_run_that_its_key_refuses_passes_the_jobs_place_on(store: Store, worker: Worker) -> None:
    """A place of the job that the woken run can't use goes to the next one in the line of the job."""
    job = await add_job(store, max_running=2)
    runs = await add_keyed(store, job, "abab")
    first, second = await worker.claim()
    assert {first.run.id, second.run.id} == {runs[0].id, runs[1].id}
    await worker.settle(second)
    assert await worker.claim() == []
    assert await lines(store, runs) == [None, None, "key", None]
    assert [each.run.id for each in await worker.claim()] == [runs[3].id]


async def test_a_run_that_a_semaphore_refuses_passes_the_keys_turn_on(store: Store, worker: Worker) -> None:
    """Who was woken in its key's line and is then refused by a semaphore wakes the next of its key."""
    runs = await add_keyed(store, await add_job(store, semaphores=("db",)), "aaa")
    (first,) = await worker.claim()
    await worker.settle(first)
    holder = await add_job(store, "holder", semaphores=("db",))
    await store.add_run(a_request(holder, due=Moment(NOW - 1000)), NOW)
    (held,) = await worker.claim(1)
    assert held.run.job_id == "holder"
    assert await worker.claim(1) == []
    assert await lines(store, runs[1:]) == ["semaphore:db", None]
    assert await states(store, runs[1:]) == ["blocked", "ready"]


async def test_a_larger_limit_of_keys_wakes_their_lines(store: Store, worker: Worker) -> None:
    """After an edit as many run as the new limit allows."""
    job = await add_job(store)
    await add_keyed(store, job, "aaab")
    await worker.claim()
    await store.replace_job(job, changed(job, max_running_per_key=2))
    assert len(await worker.claim()) == 1


async def test_a_smaller_limit_of_keys_holds_from_the_next_claim(store: Store, worker: Worker) -> None:
    """After an edit nothing of the key is claimed until enough has ended."""
    job = await add_job(store, max_running_per_key=2)
    await add_keyed(store, job, "aaa")
    first, second = await worker.claim()
    await store.replace_job(job, changed(job, max_running_per_key=1))
    await worker.settle(first)
    assert await worker.claim() == []
    await worker.settle(second)
    assert len(await worker.claim()) == 1


async def test_a_paused_job_keeps_its_lines(store: Store, worker: Worker) -> None:
    """Runs of a paused job are not claimed; after its resume the limit of the key holds."""
    job = await add_job(store)
    runs = await add_keyed(store, job, "aaa")
    (claimed,) = await worker.claim()
    stopped = replace(job, state=JobState.PAUSED, version=2)
    await store.replace_job(job, stopped)
    await worker.settle(claimed)
    assert await worker.claim() == []
    await store.replace_job(stopped, replace(stopped, state=JobState.ENABLED, version=3))
    assert [each.run.id for each in await worker.claim()] == [runs[1].id]


async def test_the_runs_of_a_deleted_job_leave_the_line(store: Store, worker: Worker) -> None:
    """What stood in line is cancelled, and the one that runs goes on to its end."""
    job = await add_job(store)
    runs = await add_keyed(store, job, "aaa")
    (claimed,) = await worker.claim()
    await store.delete_job(job.id, NOW)
    assert await states(store, runs) == ["running", "cancelled", "cancelled"]
    await worker.settle(claimed)
    assert await state_of(store, runs[0]) is RunState.SUCCEEDED


async def test_planned_runs_have_the_key_of_their_job(store: Store) -> None:
    """The runs of occurrences are limited by the key that the definition states."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1), misfire="all", concurrency_key="tenant-7")
    await fire(store, later(1))
    (run,) = await store.list_runs(RunFilter())
    assert run.concurrency_key == "tenant-7"


async def test_children_have_the_key_of_their_job(store: Store, worker: Worker) -> None:
    """The run of a dependent job gets the key of its own job, not that of its parent."""
    parent = await add_job(store, "parent")
    child = a_job("child", parents=(Parent(job="parent"),), concurrency_key="child's")
    await store.add_jobs([child], (await store.family()).version)
    await add_keyed(store, parent, "a")
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    (run,) = await store.list_runs(RunFilter(job_id=child.id))
    assert run.concurrency_key == "child's"


async def test_a_key_is_any_text(store: Store, worker: Worker) -> None:
    """Keys are told apart by every character, and may be long."""
    job = await add_job(store)
    keys = ["a", "A", "ä", "a ", "'\"%_\\", "é" * 255, "é" * 254]
    for key in keys:
        for _ in range(2):
            await store.add_run(a_request(job, concurrency_key=key), NOW)
    claimed = await worker.claim()
    assert sorted(each.run.concurrency_key or "" for each in claimed) == sorted(keys)


async def test_a_key_stays_with_its_run(store: Store, worker: Worker) -> None:
    """When the run has ended it still says which key it had."""
    (run,) = await add_keyed(store, await add_job(store), "a")
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    ended = await store.get_run(run.id)
    assert (ended.concurrency_key, ended.blocked_on) == ("a", None)
