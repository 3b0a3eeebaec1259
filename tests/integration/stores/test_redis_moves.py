"""An edit, a pause or a deletion of a job with many live runs: others get their turn meanwhile, and nothing is left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from signal import SIGKILL

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, state_of
from tests.servers.redis import Server
from tokimori.clock import Moment, SystemClock
from tokimori.errors import StoreError
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Failed
from tokimori.model.policies import OnExhausted
from tokimori.model.request import Manner
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.nodes import Beat
from tokimori.ports.store import RunFilter, Store
from tokimori.stores.open import open_store
from tokimori.stores.redis import jobs
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.rules import edits

sizes = pytest.mark.parametrize(("many", "beats"), [(5_000, 3), pytest.param(20_000, 10, marks=pytest.mark.prove)])
"""So many live runs, and how often a node beats at least while they follow."""
Change = Callable[[Store, Job], Awaitable[None]]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    """An open store with its schema."""
    store = open_store(server.url(), SystemClock())
    await store.open()
    await store.migrate()
    yield store
    await store.close()


async def with_many(store: Store, number: int, state: RunState = RunState.READY, **terms: object) -> tuple[Job, Run]:
    """A job with so many live runs; the job and its first run."""
    job = await add_job(store, "many", **terms)
    runs = [a_request(job, due=Moment(NOW - number + n), state=state) for n in range(number)]
    for start in range(0, number, 1000):
        await store.import_rows(Kind.RUNS, runs[start : start + 1000])
    return job, runs[0]


def in_lane(queue: str, state: JobState = JobState.ENABLED) -> Change:
    """An edit of the queue, or of the state."""

    async def change(store: Store, job: Job) -> None:
        definition = replace(job.definition, queue=queue)
        await store.replace_job(job, replace(job, definition=definition, state=state, version=2))

    return change


CHANGES: dict[str, Change] = {
    "edit": in_lane("other"),
    "pause": in_lane("default", JobState.PAUSED),
    "delete": lambda store, job: store.delete_job(job.id, NOW),
}


async def beats_during(worker: Worker, change: Awaitable[None]) -> int:
    """How often a node beats while a change is made."""
    beats, task = 0, asyncio.ensure_future(change)
    while not task.done():
        await worker.tick()
        beats += 1
    await task
    return beats


@sizes
@pytest.mark.timeout(120)
async def test_others_get_their_turn_while_many_runs_follow_their_job(store: Store, many: int, beats: int) -> None:
    """While thousands of live runs get another lane, lose it, get it back and end, a node beats many times."""
    worker = await Worker.join(store)
    job, first = await with_many(store, many)
    assert await beats_during(worker, in_lane("other")(store, job)) > beats
    assert [each.run.lane for each in await worker.claim(1)] == ["other||"]
    job = await store.get_job(job.id)
    assert await beats_during(worker, store.replace_job(job, replace(job, state=JobState.PAUSED, version=3))) > beats
    assert await worker.claim(1) == []
    assert await beats_during(worker, store.delete_job(job.id, NOW)) > beats
    for _ in range(many // 250):
        await worker.tick()
    left = await store.list_runs(RunFilter(states=frozenset(RunState) - {RunState.CANCELLED}, limit=many))
    assert [run.id for run in left] == [first.id]


@sizes
@pytest.mark.timeout(120)
async def test_a_long_line_is_woken_by_and_by(store: Store, many: int, beats: int) -> None:
    """When the limit of a job with thousands of blocked runs is taken away, all of them are ready, and a node beats."""
    worker = await Worker.join(store)
    job, _ = await with_many(store, many, RunState.BLOCKED, max_running=1)
    unlimited = replace(job, definition=replace(job.definition, max_running=0), version=2)
    assert await beats_during(worker, store.replace_job(job, unlimited)) > beats
    for _ in range(many // 250):
        await worker.tick()
    assert await store.list_runs(RunFilter(states=frozenset({RunState.BLOCKED}))) == []


async def test_a_move_that_fails_hinders_no_other(
    server: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beats that come upon one that nobody can read fail; others carry on what another job's runs have to follow."""
    monkeypatch.setattr(edits, "MOST_STEPS", 0)
    worker = await Worker.join(store)
    job, _ = await with_many(store, 1500)
    server.command("HSET", "{tokimori}:moves", "0", "no move")
    await in_lane("default", JobState.PAUSED)(store, job)
    for _ in range(60):
        with suppress(StoreError):
            await worker.tick()
    assert {run.lane for run in await store.list_runs(RunFilter(limit=1500))} == {None}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_node_that_dies_in_a_change_leaves_the_rest_to_the_others(
    name: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What did not follow yet is not claimed by the old definition, and does with the next ticks."""
    worker = await Worker.join(store)
    job, _ = await with_many(store, 3000)
    old = lane_of(job.definition)

    async def die(db: RedisConnections, incarnation: Incarnation, steps: Iterable[int]) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(jobs, "move_runs", die)
    with pytest.raises(asyncio.CancelledError):
        await CHANGES[name](store, job)
    assert (await store.survey(NOW)).lanes == ((old,) if name != "edit" else (old, "other||"))
    claimed = [each for _ in range(5) for each in await worker.claim(10)]
    assert {each.run.lane for each in claimed} == ({"other||"} if name == "edit" else set())
    for _ in range(20):
        await worker.tick()
    live = await store.list_runs(RunFilter(states=frozenset({RunState.READY}), limit=9999))
    assert {run.lane for run in live} == {"edit": {"other||"}, "pause": {None}, "delete": set()}[name]


async def test_a_forced_run_keeps_its_lane_while_others_lose_theirs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is just being paused runs once where that is forced, however many of its runs have still to stop."""
    worker = await Worker.join(store)
    job, _ = await with_many(store, 3000)

    async def die(db: RedisConnections, incarnation: Incarnation, steps: Iterable[int]) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(jobs, "move_runs", die)
    with pytest.raises(asyncio.CancelledError):
        await CHANGES["pause"](store, job)
    forced = await store.add_run(a_request(job), NOW, Manner(forced=True))
    for _ in range(20):
        await worker.tick()
    assert [each.run.id for each in await worker.claim()] == [forced.id]


async def test_a_parked_job_keeps_no_run_in_its_lane(store: Store) -> None:
    """When a failure parks a job with many ready runs, none is claimed any more; they leave it with the next ticks."""
    worker = await Worker.join(store)
    await with_many(store, 3000, on_exhausted=OnExhausted.PARK)
    (claimed,) = await worker.claim(1)
    await worker.settle(claimed, Failed("broken"))
    assert await worker.claim() == []
    for _ in range(20):
        await worker.tick()
    assert (await store.survey(NOW)).lanes == ()
    assert await state_of(store, claimed) is RunState.FAILED
    assert {run.lane for run in await store.list_runs(RunFilter(states=frozenset({RunState.READY}), limit=9999))} == {
        None
    }


async def test_a_second_change_goes_on_where_the_first_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs follow the newest definition, though an earlier change had not reached them."""
    job, _ = await with_many(store, 3000)
    move = jobs.move_runs

    async def die(db: RedisConnections, incarnation: Incarnation, steps: Iterable[int]) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(jobs, "move_runs", die)
    with pytest.raises(asyncio.CancelledError):
        await in_lane("second")(store, job)
    monkeypatch.setattr(jobs, "move_runs", move)
    job = await store.get_job(job.id)
    third = replace(job, definition=replace(job.definition, queue="third"), version=3)
    await store.replace_job(job, third)
    assert (await store.survey(NOW)).lanes == ("third||",)


async def test_runs_follow_though_the_server_is_started_anew(
    store: Store, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor of a scan means nothing to it: the move begins anew, and leaves none out."""
    worker = await Worker.join(store)
    await with_many(store, 3000)
    monkeypatch.setattr(edits, "MOST_STEPS", 3)
    await CHANGES["pause"](store, await store.get_job(JobId("many")))
    server.stop(SIGKILL)
    server.start()
    heir = open_store(server.url(), SystemClock())
    await heir.open()
    for _ in range(20):
        await heir.tick(Beat(node=worker.id), NOW)
    live = await heir.list_runs(RunFilter(states=frozenset({RunState.READY}), limit=9999))
    assert {run.lane for run in live} == {None}
    await heir.close()
