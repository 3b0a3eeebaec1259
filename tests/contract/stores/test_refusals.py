"""One change that the database refuses hinders no other, whichever statement of a settle it refuses.

A trigger makes the database refuse. Redis has none: see `tests/integration/stores/test_redis_refusals.py`.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_job, a_request, add_job
from tests.contract.stores.refusing import DATABASES, WORDS, Database, opened
from tokimori.engine.refusals import PATIENCE, is_fault_of_request, pause_after
from tokimori.engine.unsettled import Unsettled
from tokimori.model.dependents import Join, On, Parent
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Failed, Outcome, RetryIn, Succeeded
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Output, Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed

GOOD = 7
"""So many other runs end together with the one that is refused."""


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An open, empty store with its tables."""
    async with opened(request.param, tmp_path) as database:
        yield database


class Case(NamedTuple):
    """Which statement is refused, and how the bad run ends. `lasting`: no form of that end does without it.

    In `when`, `:run` is the bad run, `:heir` and `:both` are the incarnations of its children.
    """

    verb: str
    table: str
    when: str
    outcome: Outcome = Succeeded(0)
    lasting: bool = False
    childless: bool = False


CASES = {
    "its row of the history": Case("INSERT", "history", "NEW.id = :run", lasting=True),
    "its live row": Case("DELETE", "runs", "OLD.id = :run", lasting=True),
    "what it has to do next": Case("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'waiting'", RetryIn(0.0)),
    "the row of its attempt": Case("INSERT", "attempts", "NEW.run_id = :run", Failed("no", exit_code=1)),
    "its output": Case("INSERT", "outputs", "NEW.run_id = :run"),
    "its permit": Case("DELETE", "permits", "OLD.run_id = :run", lasting=True),
    "its child": Case("INSERT", "runs", "NEW.incarnation = :heir", childless=True),
    "the child's skip": Case("INSERT", "skips", "NEW.incarnation = :stopped", childless=True),
    "what a child waits for": Case("INSERT", "arrivals", "NEW.incarnation = :both", childless=True),
    "the job that parks": Case("UPDATE", "jobs", "NEW.id = 'bad' AND NEW.state = 'parked'", Failed("no", exit_code=1)),
}


class World(NamedTuple):
    """Runs in the hands of one node: the bad one is among the others."""

    worker: Worker
    claimed: list[Claimed]
    bad: Run
    children: dict[str, Job]


async def a_world(store: Store) -> World:
    """Eight runs have been claimed."""
    worker = await Worker.join(store)
    good = await add_job(store, "good")
    bad = await add_job(store, "bad", semaphores=("db",), on_exhausted=OnExhausted.PARK)
    always = Parent(job="bad", on=On.ALWAYS)
    children = {
        "heir": a_job("heir", parents=(always,)),
        "stopped": a_job("stopped", parents=(always,)),
        "both": a_job("both", parents=(always, Parent(job="good", on=On.FAILURE)), join=Join.ALL),
    }
    for child in children.values():
        await store.add_jobs([child], (await store.family()).version)
    await store.replace_job(children["stopped"], replace(children["stopped"], state=JobState.PAUSED))
    requests = [a_request(bad if n == GOOD // 2 else good) for n in range(GOOD + 1)]
    runs = [await store.add_run(request, NOW) for request in requests]
    return World(worker, await worker.claim(), runs[GOOD // 2], children)


async def settle_all(world: World, outcome: Outcome) -> Unsettled:
    """As a node does it; what is left."""
    unsettled, worker = Unsettled(), world.worker
    for each in world.claimed:
        output = Output(run_id=each.run.id, attempt=1, size=4, tail=b"done")
        ends = outcome if each.run.id == world.bad.id else Succeeded(0)
        unsettled.add(worker.change(each, ends, output=output))
    at = 0.0
    for tries in range(1, PATIENCE + 1):
        await _settle_now(worker, unsettled, at)
        at += pause_after(tries)
    return unsettled


async def _settle_now(worker: Worker, unsettled: Unsettled, at: float) -> None:
    while batch := unsettled.batch(at):
        try:
            await worker.store.settle(batch, worker.id, NOW)
        except Exception as fault:
            assert is_fault_of_request(fault), fault
            unsettled.refuse(batch, fault, at)
        else:
            unsettled.settled(batch)


def known(case: Case, world: World) -> str:
    """The condition with the ids of this world."""
    names = {":run": f"'{world.bad.id}'", **{f":{name}": str(job.incarnation) for name, job in world.children.items()}}
    when = case.when
    for name, value in names.items():
        when = when.replace(name, value)
    return when


async def states(store: Store, job: str) -> list[RunState]:
    """Of the runs of a job."""
    return [run.state for run in await store.list_runs(RunFilter(job_id=JobId(job)))]


async def refused_run(store: Store, run_id: RunId) -> Run:
    """The run that failed with the store's words."""
    run = await store.get_run(run_id)
    assert (run.state, WORDS in (run.error or "")) == (RunState.FAILED, True)
    return run


@pytest.mark.parametrize("name", CASES)
async def test_a_refused_change_hinders_no_other(database: Database, name: str) -> None:
    """The others succeed; the one fails with the store's words, or stays until the store takes it."""
    case, store = CASES[name], database.store
    world = await a_world(store)
    assert len(world.claimed) == GOOD + 1
    database.refuse(case.verb, case.table, known(case, world))
    left = await settle_all(world, case.outcome)
    assert await states(store, "good") == [RunState.SUCCEEDED] * GOOD
    if case.lasting:
        assert left.stuck
        assert (await store.get_run(world.bad.id)).state is RunState.RUNNING
        return
    assert not left
    await refused_run(store, world.bad.id)
    assert await states(store, "heir") == ([] if case.childless else [RunState.READY])
    assert (await store.get_semaphore("db")).used == 0


@pytest.mark.parametrize("outcome", [Succeeded(0), Failed("no", exit_code=1), RetryIn(0.0)])
async def test_every_table_that_a_settle_writes_is_refused_once(database: Database, outcome: Outcome) -> None:
    """Whatever a settle of such runs does to a table, there is a case in which the database refuses that."""
    world = await a_world(database.store)
    database.hear()
    await settle_all(world, outcome)
    of_replace = {("DELETE", "arrivals")}  # MariaDB's REPLACE takes the row away first that it writes anew
    assert database.heard() - of_replace <= {(case.verb, case.table) for case in CASES.values()}
