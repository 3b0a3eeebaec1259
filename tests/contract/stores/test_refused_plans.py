"""One plan that the database refuses hinders no other, whichever statement of it is refused."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract.stores.actors import EVERY_SECOND, Worker, add_job, later, random_bytes
from tests.contract.stores.refusing import DATABASES, WORDS, Database, opened
from tests.contract.stores.test_refusals import states
from tests.laws import one_in
from tokimori.clock import SECOND, Moment
from tokimori.engine.fire import Promoter, Schedules, fire
from tokimori.engine.firing import RefusedJobs
from tokimori.errors import StoreError
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.policies import Overlap
from tokimori.ports.store import Store

GOOD = 6
"""So many other jobs are due at the same moments."""


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An open, empty store with its tables."""
    async with opened(request.param, tmp_path) as database:
        yield database


class Case(NamedTuple):
    """Which statement is refused, in which `:bad` is the job's incarnation.

    `lasting`: the job can't even be parked; `running`: its run, which is to be replaced, has started.
    """

    verb: str
    table: str
    when: str
    lasting: bool = False
    running: bool = False


CASES = {
    "its run": Case("INSERT", "runs", "NEW.incarnation = :bad"),
    "its skip": Case("INSERT", "skips", "NEW.incarnation = :bad"),
    "its cursor": Case("UPDATE", "jobs", "NEW.incarnation = :bad AND NEW.state = 'enabled'"),
    "its row": Case("UPDATE", "jobs", "NEW.incarnation = :bad", lasting=True),
    "the run that it replaces": Case("DELETE", "runs", "OLD.incarnation = :bad"),
    "the end of that": Case("INSERT", "history", "NEW.incarnation = :bad"),
    "the order that ends it": Case("UPDATE", "runs", "NEW.incarnation = :bad AND NEW.cancel IS NOT NULL", running=True),
    "whatever is written of it": Case("UPDATE", "runs", "NEW.incarnation = :bad", lasting=True, running=True),
}


async def a_world(store: Store, *, running: bool = False) -> Job:
    """Jobs that are due every second, each with a run, which may have started; one of them replaces its run."""
    first = {"schedule": EVERY_SECOND, "next_due": later(1), "max_running": 1}
    for n in range(GOOD):
        await add_job(store, f"good{n}", **first, on_overlap=Overlap.QUEUE)
    bad = await add_job(store, "bad", **first, on_overlap=Overlap.REPLACE)
    await _fire(store, later(1), RefusedJobs(store))
    if running:
        await (await Worker.join(store)).claim()
    return bad


async def _fire(store: Store, now: Moment, refused: RefusedJobs) -> None:
    """As a node does it, until nothing is due that does not wait."""
    promoter, schedules = Promoter(store), Schedules()
    for _ in range(30):
        waiting = refused.waiting(now)
        fired = await fire(store, now, random_bytes, schedules, promoter=promoter, limit=refused.limit, but=waiting)
        if fired is None:
            return
        if fired.refused is None:
            refused.took(fired)
        else:
            with suppress(StoreError):  # the store seems ill: a node waits a moment
                await refused.note(fired.refused, now)
    raise AssertionError("it finds no end")


async def fire_for_a_minute(store: Store) -> None:
    """Seconds 100 to 160: all have missed some occurrences by then."""
    refused = RefusedJobs(store)
    for second in range(100, 161, 5):
        await _fire(store, Moment(later(0) + second * SECOND), refused)


@pytest.mark.parametrize("name", one_in(3, list(CASES)))
async def test_a_refused_plan_hinders_no_other(database: Database, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """All other jobs fire at each moment; the one is parked with the store's words, or waits until it is taken."""
    case, store = CASES[name], database.store
    bad = await a_world(store, running=case.running)
    before = await states(store, "bad")
    database.refuse(case.verb, case.table, case.when.replace(":bad", str(bad.incarnation)))
    await fire_for_a_minute(store)
    for n in range(GOOD):
        assert (await store.get_job(JobId(f"good{n}"))).fired_through == later(160)
    job = await store.get_job(bad.id)
    assert await states(store, "bad") == before
    assert WORDS in caplog.text
    if case.lasting:
        assert job.state is JobState.ENABLED
        database.accept()
        await _fire(store, later(500), RefusedJobs(store))
        assert (await store.get_job(bad.id)).fired_through == later(500)
        return
    assert job.state is JobState.PARKED
    assert WORDS in (job.reason or "")


async def test_every_table_that_a_plan_writes_is_refused_once(database: Database) -> None:
    """Whatever plans of such jobs do to a table, there is a case in which the database refuses that."""
    await a_world(database.store, running=True)
    database.hear()
    await fire_for_a_minute(database.store)
    assert database.heard() <= {(case.verb, case.table) for case in CASES.values()}
