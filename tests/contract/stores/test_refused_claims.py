"""One run that the database refuses to give out, or to make ready, hinders no other, whichever statement it refuses."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_claim, a_request, add_job, later
from tests.contract.stores.refusing import DATABASES, WORDS, Database, opened
from tokimori.engine.fire import Promoter
from tokimori.engine.refusals import LONGEST_PAUSE, RefusedRuns, is_fault_of_request
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store

SIDE = 4
"""So many runs stand before the one that is refused, and as many behind it."""


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An open, empty store with its tables."""
    async with opened(request.param, tmp_path) as database:
        yield database


class Case(NamedTuple):
    """Which statement is refused. In `when`, `:run` is the bad run."""

    verb: str
    table: str
    when: str
    kept: RunState = RunState.READY


CLAIMS = {
    "its claim": Case("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'running'"),
    "its permit": Case("INSERT", "permits", "NEW.run_id = :run"),
    "its place in a line": Case("UPDATE", "runs", "NEW.id = :full AND NEW.state = 'blocked'"),
    "its semaphore": Case("INSERT", "semaphores", "NEW.name = 'db'"),
    "whatever is written of it": Case("UPDATE", "runs", "NEW.id = :run"),
}
PROMOTIONS = {"its state": Case("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'ready'")}


class World(NamedTuple):
    """Runs of one lane, by rank: good ones, one that wants a semaphore, one whose job is full, and good ones."""

    worker: Worker
    good: list[Run]
    bad: Run
    full: Run
    job: Job

    def known(self, when: str) -> str:
        """The condition with the ids of this world."""
        return when.replace(":run", f"'{self.bad.id}'").replace(":full", f"'{self.full.id}'")


async def a_world(store: Store, wait: float = 0) -> World:
    """They are due after so many seconds, the first one first."""
    worker, good = await Worker.join(store), await add_job(store, "good")
    bad, full = await add_job(store, "bad", semaphores=("db",)), await add_job(store, "full", max_running=1)
    await store.add_run(a_request(full), NOW)
    await worker.claim()
    jobs = [good] * SIDE + [bad, full] + [good] * SIDE
    runs = [await store.add_run(a_request(job, due=later(wait + n / 100)), NOW) for n, job in enumerate(jobs)]
    if not wait:
        await store.promote(later(1), 100)
    return World(worker, [run for run in runs if run.job_id == good.id], runs[SIDE], runs[SIDE + 1], good)


async def claim_all(world: World, refused: RefusedRuns, at: float, limit: int = 100) -> list[str]:
    """Claim as a node does, until nothing more is given out; what the store refused."""
    store, said = world.worker.store, list[str]()
    lanes = (await store.survey(NOW)).lanes
    for _ in range(60):
        asked = refused.next(lanes, limit, at)
        claim = replace(a_claim(world.worker.id, asked.lanes, asked.limit), skip=asked.skip)
        try:
            await store.claim(claim, NOW)
        except Exception as fault:
            assert is_fault_of_request(fault), fault
            said.append(refused.refuse(asked, fault, at))
        else:
            refused.took(asked)
    return said


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *((name, 100) for name in CLAIMS),
        ("its claim", 1),
        *(pytest.param(name, 1, marks=pytest.mark.prove) for name in CLAIMS if name != "its claim"),
    ],
)
async def test_a_refused_claim_hinders_no_other(database: Database, name: str, limit: int) -> None:
    """All other runs are given out, in front of it and behind it; and it is, once the database takes it."""
    case, store = CLAIMS[name], database.store
    world, refused = await a_world(store), RefusedRuns("to give out a run")
    at_fault = world.full if ":full" in case.when else world.bad
    database.refuse(case.verb, case.table, world.known(case.when))
    said = await claim_all(world, refused, 0, limit)
    assert {(await store.get_run(run.id)).state for run in world.good} == {RunState.RUNNING}
    assert (await store.get_run(at_fault.id)).state is RunState.READY
    assert any("number 1 of default||; the others go on" in each and WORDS in each for each in said)
    database.accept()
    await claim_all(world, refused, LONGEST_PAUSE, limit)
    assert (await store.get_run(world.bad.id)).state is RunState.RUNNING
    assert (await store.get_run(world.full.id)).state is RunState.BLOCKED


async def test_every_table_that_a_claim_writes_is_refused_once(database: Database) -> None:
    """Whatever a claim of such runs does to a table, there is a case in which the database refuses that."""
    world = await a_world(database.store)
    database.hear()
    await claim_all(world, RefusedRuns("to give out a run"), 0)
    heard = database.heard()
    assert ("UPDATE", "runs") in heard
    assert heard <= {(case.verb, case.table) for case in CLAIMS.values()}


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_a_refused_promotion_hinders_no_other(
    database: Database, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """All others are made ready, before it and behind it; and it is, once the database takes it."""
    case, store = PROMOTIONS["its state"], database.store
    world, promoter = await a_world(store, wait=5), Promoter(store)
    database.refuse(case.verb, case.table, world.known(case.when))
    rounds = 0
    while await promoter.promote(later(6), limit):
        rounds += 1
        assert rounds < 60
    states = {(await store.get_run(run.id)).state for run in (*world.good, world.full)}
    assert (states, (await store.get_run(world.bad.id)).state) == ({RunState.READY}, RunState.WAITING)
    assert "number 1 of those that are due; the others go on" in caplog.text
    assert WORDS in caplog.text
    assert (await store.survey(NOW, past=later(6))).next_due is None
    database.accept()
    while await promoter.promote(later(6 + LONGEST_PAUSE), limit):
        pass
    assert (await store.get_run(world.bad.id)).state is RunState.READY


async def test_every_table_that_a_promotion_writes_is_refused_once(database: Database) -> None:
    """Whatever it does to a table, there is a case in which the database refuses that."""
    await a_world(database.store, wait=5)
    database.hear()
    assert await database.store.promote(later(6), 100) == 2 * SIDE + 2
    assert database.heard() == {(case.verb, case.table) for case in PROMOTIONS.values()}
