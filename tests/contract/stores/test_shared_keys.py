"""Requests that share a key: debounce and replace (a run that has not started takes them over), and throttle."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later, random_bytes, state_of
from tokimori.clock import Moment
from tokimori.errors import NotFound, Refused
from tokimori.model.ids import RunId, uuid7
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import rank_of
from tokimori.model.outcome import Failed
from tokimori.model.policies import Retry
from tokimori.model.request import REMEMBERED, Manner, shared_origin
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store

REPLACES = Manner(replaces=True)
STATES = [RunState.WAITING, RunState.READY, RunState.BLOCKED]


def shared(job: Job, key: str = "key", *, now: Moment = NOW, due: Moment | None = None, **changes: object) -> Run:
    """A request under a key that others share, made now."""
    run_id = RunId(uuid7(now, random_bytes))
    moment = now if due is None else due
    run = a_request(job, due=moment, id=run_id, origin=shared_origin(key, run_id), created=now)
    state = RunState.READY if moment <= now else RunState.WAITING
    return replace(run, **{"state": state, "rank": rank_of(moment, run.priority), **changes})


def since(seconds: float) -> Manner:
    """A throttle that a run younger than this moment answers."""
    return Manner(since=later(seconds))


async def all_runs(store: Store) -> list[Run]:
    """Every run, newest first."""
    return await store.list_runs(RunFilter(limit=1000))


async def test_a_run_that_waits_is_put_off(store: Store, worker: Worker) -> None:
    """Debounce: one run, with the moment, payload and priority of the newest request."""
    job = await add_job(store)
    first = await store.add_run(shared(job, due=later(5), payload="1"), NOW, REPLACES)
    asked = shared(job, now=later(1), due=later(6), payload="2", priority=7, rank=rank_of(later(6), 7))
    run = await store.add_run(asked, later(1), REPLACES)
    assert (run.id, run.payload, run.due, run.nominal, run.priority) == (first.id, "2", later(6), later(6), 7)
    assert (run.rank, run.created, run.origin) == (asked.rank, first.created, first.origin)
    assert await all_runs(store) == [run]
    await store.promote(later(5), 10)
    assert await worker.claim() == []
    await store.promote(later(6), 10)
    (claimed,) = await worker.claim()
    assert (claimed.run.id, claimed.run.payload) == (first.id, "2")


@pytest.mark.parametrize("state", STATES)
async def test_whatever_has_not_started_is_replaced(store: Store, worker: Worker, state: RunState) -> None:
    """A run that waits, is ready or stands in line takes the new request over and waits for its moment."""
    job = await add_job(store, max_running=1)
    await add_runs(store, job, int(state is RunState.BLOCKED))
    due = later(60) if state is RunState.WAITING else NOW
    first = await store.add_run(shared(job, due=due, payload="old"), NOW, REPLACES)
    if state is RunState.BLOCKED:
        await worker.claim()
    assert await state_of(store, first) is state
    run = await store.add_run(shared(job, now=later(1), due=later(2)), later(1), REPLACES)
    assert (run.id, run.state, run.payload) == (first.id, RunState.WAITING, None)
    assert await store.get_run(first.id) == run
    assert (await store.survey(NOW)).lanes == ()


async def test_a_ready_run_that_is_put_off_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """The next in line starts in its place."""
    job = await add_job(store, max_running=1)
    await add_runs(store, job, 1)
    woken = await store.add_run(shared(job), NOW, REPLACES)
    other = await store.add_run(a_request(job, due=later(1), state=RunState.READY), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert [await state_of(store, run) for run in (woken, other)] == [RunState.READY, RunState.BLOCKED]
    await store.add_run(shared(job, due=later(60)), NOW, REPLACES)
    assert [await state_of(store, run) for run in (woken, other)] == [RunState.WAITING, RunState.READY]


async def test_what_has_started_is_left_alone(store: Store, worker: Worker) -> None:
    """While a run of the key runs, waits for its retry, or is held, a request makes another one."""
    job = await add_job(store, retry=Retry(attempts=2, delay=60))
    ids: set[RunId] = set()
    for end in ("running", "retry", "succeeded"):
        asked = shared(job, now=later(len(ids)))
        ids.add((await store.add_run(asked, later(len(ids)), REPLACES)).id)
        (claimed,) = await worker.claim()
        assert claimed.run.id == asked.id
        if end != "running":
            await worker.settle(claimed, Failed("again") if end == "retry" else None)
    held = await store.add_run(shared(job, now=later(3)), later(3), REPLACES)
    await store.hold_run(held.id, "wait")
    ids |= {held.id, (await store.add_run(shared(job, now=later(4)), later(4), REPLACES)).id}
    assert len(ids) == len(await all_runs(store)) == 5


async def test_keys_that_begin_alike_are_apart(store: Store) -> None:
    """Each key has a run of its own, and each job has its own keys; a plain key is another matter."""
    job, other = await add_job(store), await add_job(store, "other")
    keys = ["a", "a ", "a b", "b", "ä", "A"]
    runs = [await store.add_run(shared(job, key), NOW, REPLACES) for key in keys]
    runs += [await store.add_run(shared(other, "a"), NOW, REPLACES), await store.add_run(a_request(job, "a"), NOW)]
    assert len({run.id for run in runs}) == 8
    again = [await store.add_run(shared(job, key, now=later(1)), later(1), REPLACES) for key in keys]
    assert [run.id for run in again] == [run.id for run in runs[:6]]


async def test_at_most_one_run_in_a_time(store: Store, worker: Worker) -> None:
    """Throttle: a run of the key made after the moment answers, whatever became of it; then comes another one."""
    job = await add_job(store)
    first = await store.add_run(shared(job), NOW, since(-10))
    (claimed,) = await worker.claim()
    assert (await store.add_run(shared(job, now=later(5)), later(5), since(-5))).id == first.id
    await worker.settle(claimed)
    assert (await store.add_run(shared(job, now=later(9)), later(9), since(-1))).id == first.id
    second = await store.add_run(shared(job, now=later(10)), later(10), since(0))
    assert second.id != first.id
    assert (await store.add_run(shared(job, now=later(11)), later(11), since(1))).id == second.id


@pytest.mark.parametrize("manner", [REPLACES, since(-10)])
async def test_what_a_clock_made_that_was_ahead_swallows_nothing(store: Store, worker: Worker, manner: Manner) -> None:
    """Two days ahead a run of the key was made, and ended: from now on the newest one that was made since counts."""
    job, ahead = await add_job(store), later(2 * 86_400)
    await store.add_run(shared(job, now=ahead), ahead, manner)
    (claimed,) = await worker.claim(now=ahead)
    await worker.settle(claimed, now=ahead)
    first = await store.add_run(shared(job, due=later(60)), NOW, manner)
    assert first.id != claimed.run.id
    assert (await store.add_run(shared(job, now=later(5), due=later(65)), later(5), manner)).id == first.id
    assert len(await all_runs(store)) == 2


async def test_what_a_clock_put_off_that_was_ahead_is_put_off_from_now(store: Store) -> None:
    """Debounce: the run that waits for a moment in two days takes the next request over, and its moment."""
    job, ahead = await add_job(store), later(2 * 86_400)
    first = await store.add_run(shared(job, now=ahead, due=Moment(ahead + 60)), ahead, REPLACES)
    run = await store.add_run(shared(job, due=later(60)), NOW, REPLACES)
    assert (run.id, run.due) == (first.id, later(60))


async def test_a_lost_reply_of_a_request_that_was_taken_over(store: Store, worker: Worker) -> None:
    """Asked again, even after that run has started, with others in between, it gets that run and changes nothing."""
    job = await add_job(store)
    first = await store.add_run(shared(job, due=later(5)), NOW, REPLACES)
    asked = shared(job, now=later(1), due=later(6), payload="2")
    await store.add_run(asked, later(1), REPLACES)
    await store.add_run(shared(job, now=later(2), due=later(7), payload="3"), later(2), REPLACES)
    again = await store.add_run(asked, later(3), REPLACES)
    assert (again.id, again.payload, again.due) == (first.id, "3", later(7))
    await store.promote(later(7), 10)
    (claimed,) = await worker.claim()
    assert (await store.add_run(asked, later(8), REPLACES)).id == first.id
    await worker.settle(claimed)
    assert (await store.add_run(asked, later(9), REPLACES)).state is RunState.SUCCEEDED
    assert len(await all_runs(store)) == 1


@pytest.mark.parametrize("manner", [REPLACES, since(-10)])
async def test_a_lost_reply_of_a_request_that_made_a_run(store: Store, worker: Worker, manner: Manner) -> None:
    """Asked again it gets that run, also when it has ended and another one of the key has come."""
    job = await add_job(store)
    asked = shared(job)
    assert (await store.add_run(asked, NOW, manner)).id == asked.id
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    other = await store.add_run(shared(job, now=later(20)), later(20), Manner(since=later(10)))
    assert other.id != asked.id
    assert (await store.add_run(asked, later(21), manner)).id == asked.id
    assert len(await all_runs(store)) == 2


async def test_what_was_taken_over_is_forgotten_in_the_end(store: Store) -> None:
    """What a store remembers of such requests does not grow for ever: after an hour one is a new request."""
    job = await add_job(store)
    asked = shared(job, payload="1")
    first = await store.add_run(shared(job), NOW, REPLACES)
    assert (await store.add_run(asked, NOW, REPLACES)).payload == "1"
    late = Moment(NOW + 2 * REMEMBERED)
    await store.add_run(shared(job, now=late, payload="2"), late, REPLACES)
    assert (await store.get_run(first.id)).payload == "2"


@pytest.mark.parametrize("manner", [REPLACES, since(-10)])
async def test_a_stopped_job_refuses_them(store: Store, manner: Manner) -> None:
    """Neither a new run nor a waiting one takes what is asked of a paused job, unless it is forced."""
    job = await add_job(store)
    first = await store.add_run(shared(job, due=later(60)), NOW, manner)
    await store.replace_job(job, replace(job, version=2, state=JobState.PAUSED))
    with pytest.raises(Refused, match="is paused"):
        await store.add_run(shared(job, now=later(1)), later(1), manner)
    forced = replace(manner, forced=True)
    run = await store.add_run(shared(job, now=later(1), due=later(1)), later(1), forced)
    assert run.id == first.id
    assert (run.lane is None) == (manner is not REPLACES)


async def test_a_full_job_refuses_a_new_run_alone(store: Store) -> None:
    """Where as many wait as may, a run that is put off is none more, and one of another key is."""
    job = await add_job(store, max_running=1, max_waiting=0)
    first = await store.add_run(shared(job, due=later(60)), NOW, REPLACES)
    assert (await store.add_run(shared(job, due=later(61)), NOW, REPLACES)).id == first.id
    assert (await store.add_run(shared(job), NOW, since(-1))).id == first.id
    with pytest.raises(Refused, match="no more may wait"):
        await store.add_run(shared(job, "other"), NOW, REPLACES)


@pytest.mark.parametrize("manner", [REPLACES, since(-1), Manner(forced=True)])
async def test_a_job_that_is_gone_is_not_found(store: Store, manner: Manner) -> None:
    """Whatever the manner, what there is not takes no request."""
    job = await add_job(store)
    await store.delete_job(job.id, NOW)
    with pytest.raises(NotFound):
        await store.add_run(shared(job), NOW, manner)


async def test_requests_at_once_make_one_run(store: Store) -> None:
    """Twenty callers at the same moment: one makes the run, the others get it."""
    job = await add_job(store)
    for manner, key in ((REPLACES, "debounce"), (since(-10), "throttle")):
        asked = [shared(job, key, due=later(60), payload=str(n)) for n in range(20)]
        runs = await asyncio.gather(*(store.add_run(run, NOW, manner) for run in asked))
        assert len({run.id for run in runs}) == 1
        assert (await store.get_run(runs[0].id)).payload in {run.payload for run in asked}
    assert len(await all_runs(store)) == 2


async def test_a_claimed_run_is_never_replaced(store: Store) -> None:
    """Claims and replacements at once: what a run is claimed with stays, and every request is answered by some run."""
    job = await add_job(store)
    workers = [await Worker.join(store) for _ in range(4)]
    for n in range(10):
        moment = later(n)
        await store.add_run(shared(job, now=moment, payload="first"), moment, REPLACES)
        asked = [shared(job, now=moment, payload=str(m)) for m in range(4)]
        await store.promote(moment, 100)
        claims, answers = await asyncio.gather(
            asyncio.gather(*(worker.claim(now=moment) for worker in workers)),
            asyncio.gather(*(store.add_run(run, moment, REPLACES) for run in asked)),
        )
        assert {run.payload for run in answers} <= {"0", "1", "2", "3"}
        for worker, batch in zip(workers, claims, strict=True):
            for claimed in batch:
                assert (await store.get_run(claimed.run.id)).payload == claimed.run.payload
                await worker.settle(claimed, now=moment)
    assert len(await all_runs(store)) < 50


async def test_a_request_is_answered_by_its_run_also_when_the_job_is_gone(store: Store) -> None:
    """The reply is lost, the job is deleted: who asks again gets the run that was made, or that took it over."""
    job = await add_job(store)
    made, taken_over = shared(job, due=later(5)), shared(job, now=later(1), due=later(6))
    for asked in (made, taken_over):
        await store.add_run(asked, asked.created, REPLACES)
    await store.delete_job(job.id, later(2))
    answers = [await store.add_run(asked, later(3), REPLACES) for asked in (made, taken_over)]
    assert [(run.id, run.state) for run in answers] == [(made.id, RunState.CANCELLED)] * 2
    with pytest.raises(NotFound):
        await store.add_run(shared(job, now=later(3)), later(3), REPLACES)
