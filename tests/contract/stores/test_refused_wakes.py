"""A run that the database refuses to make ready, or to move, keeps no node from its beats and no other from its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, state_of
from tests.contract.stores.refusing import DATABASES, Database, opened
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Failed
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Claimed, Verdict

BEATS = 40
"""So many that each of two moves had its turn, whichever comes by chance."""
LINES: dict[str, dict[str, object]] = {
    "of a limit": {"max_running": 1},
    "of a key": {},
    "of a semaphore": {"semaphores": ("db",)},
}


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An open, empty store with its tables."""
    async with opened(request.param, tmp_path) as database:
        yield database


async def in_line(worker: Worker, job: Job) -> tuple[Claimed, Run]:
    """Two runs of a job: one runs, the other waits in its line."""
    key = None if job.definition.max_running or job.definition.semaphores else "one"
    both = [await worker.store.add_run(a_request(job, concurrency_key=key), NOW) for _ in range(2)]
    (running,) = await worker.claim()
    (waiting,) = [run for run in both if run.id != running.run.id]
    assert await state_of(worker.store, waiting) is RunState.BLOCKED
    return running, waiting


def refuse_to_wake(database: Database, run: Run, name: str = "refuse0") -> None:
    """From now on."""
    database.refuse("UPDATE", "runs", f"NEW.id = '{run.id}' AND NEW.state = 'ready'", name)


@pytest.mark.parametrize("line", LINES)
async def test_a_run_ends_though_the_next_one_is_refused(database: Database, line: str) -> None:
    """It ends as it did, and beats make the next one ready, once the database takes it."""
    store, worker = database.store, await Worker.join(database.store)
    running, waiting = await in_line(worker, await add_job(store, "job", **LINES[line]))
    refuse_to_wake(database, waiting)
    assert await worker.settle(running) is Verdict.APPLIED
    assert (await state_of(store, running), await state_of(store, waiting)) == (RunState.SUCCEEDED, RunState.BLOCKED)
    await worker.tick()
    assert await state_of(store, waiting) is RunState.BLOCKED
    database.accept()
    await worker.tick()
    assert [each.run.id for each in await worker.claim()] == [waiting.id]


async def test_a_job_parks_though_one_of_its_runs_can_not_follow(database: Database) -> None:
    """The database refuses every change of a run that waits; the other one fails, and its job is parked."""
    store, worker = database.store, await Worker.join(database.store)
    job = await add_job(store, "job", max_running=1, on_exhausted=OnExhausted.PARK)
    running, waiting = await in_line(worker, job)
    database.refuse("UPDATE", "runs", f"NEW.id = '{waiting.id}'")
    assert await worker.settle(running, Failed("no", exit_code=1)) is Verdict.APPLIED
    await worker.tick()
    assert (await store.get_job(job.id)).state is JobState.PARKED
    assert (await store.get_run(waiting.id)).lane is not None
    database.accept()
    await worker.tick()
    assert (await store.get_run(waiting.id)).lane is None


async def test_a_beat_wakes_all_others(database: Database) -> None:
    """Of several lines that a beat has to serve, one has a head that the database refuses: the others are served."""
    store, worker = database.store, await Worker.join(database.store)
    names = [f"s{n}" for n in range(6)]
    pairs = [await in_line(worker, await add_job(store, name, semaphores=(name,))) for name in names]
    database.refuse("UPDATE", "runs", "NEW.state = 'ready'")
    for running, _ in pairs:
        assert await worker.settle(running) is Verdict.APPLIED
    database.accept()
    for number, (_, waiting) in enumerate(pairs[:4]):
        refuse_to_wake(database, waiting, f"refuse{number}")
    for _ in range(BEATS):
        await worker.tick()
        await worker.claim()
    assert [await state_of(store, run) for _, run in pairs] == [RunState.BLOCKED] * 4 + [RunState.RUNNING] * 2


async def test_a_beat_moves_all_others(database: Database) -> None:
    """Runs of two jobs have to follow them; the database refuses it to one: the other goes, and the node beats on."""
    store, worker = database.store, await Worker.join(database.store)
    jobs = [await add_job(store, name) for name in ("good", "bad")]
    good, bad = [await store.add_run(a_request(job), NOW) for job in jobs]
    empty = "{}" if database.kind == "postgres" else "[]"
    for job in jobs:
        database.sql(f"""
            UPDATE tokimori_jobs SET lane = 'other||' WHERE incarnation = {job.incarnation};
            INSERT INTO tokimori_moves VALUES ({job.incarnation}, '', 0, NULL, '{empty}', NULL, 0, NULL);""")
    database.refuse("UPDATE", "runs", f"NEW.id = '{bad.id}'")
    for _ in range(BEATS):
        await worker.tick()
    assert [(await store.get_run(run.id)).lane for run in (bad, good)] == [bad.lane, "other||"]
    database.accept()
    await worker.tick()
    assert (await store.get_run(bad.id)).lane == "other||"


@pytest.mark.parametrize("dead", [True, False])
async def test_a_node_goes_though_who_waits_for_its_units_is_refused(database: Database, *, dead: bool) -> None:
    """It is declared dead, or leaves; beats make the run ready that waits for units of its program."""
    store, gone, worker = database.store, await Worker.join(database.store), await Worker.join(database.store)
    await gone.acquire("db")
    waiting = await store.add_run(a_request(await add_job(store, "job", semaphores=("db",))), NOW)
    assert await worker.claim() == []
    refuse_to_wake(database, waiting)
    if dead:
        await gone.die(worker)
    else:
        assert await store.leave(gone.id, NOW)
    states = {node.id: node.state for node in await store.list_nodes()}
    assert states[gone.id] is (NodeState.DEAD if dead else NodeState.LEFT)
    database.accept()
    await worker.tick()
    assert await state_of(store, waiting) is RunState.READY
