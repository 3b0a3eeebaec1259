"""What a claim on MariaDB locks, and what of it stays when it is cut short."""

from itertools import count

import pytest

from tests.contract.stores.actors import NOW, a_claim, a_job, a_request, add_job, add_runs
from tests.integration.stores.test_mariadb_locks import Scene, scene  # noqa: F401
from tokimori.errors import StoreUnavailable
from tokimori.model.lanes import lane_of
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.stores.mysql import working
from tokimori.stores.mysql.sessions import Session
from tokimori.stores.mysql.statements import Answer

_LOCKED = "SELECT trx_rows_locked FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()"


@pytest.mark.parametrize("limit", [2, 10])
async def test_a_claim_locks_no_more_than_it_judges(scene: Scene, limit: int) -> None:  # noqa: F811
    """From fifty queues with ten runs each, a claim locks the few runs that it takes, not so many of every queue."""
    jobs = [a_job(f"job-{n}", queue=f"q{n}") for n in range(50)]
    await scene.store.add_jobs(jobs)
    for n in range(500):
        await scene.store.add_run(a_request(jobs[n % 50], rank=n), NOW)
    claim = a_claim(scene.worker.id, [lane_of(job.definition) for job in jobs], limit)
    async with scene.held_open() as db:
        assert [each.run.rank for each in await db.claim(claim, NOW)] == [*range(limit)]
        ((locked,),) = await db.db.rows(_LOCKED)
    assert locked <= 10 * limit


async def test_what_a_claim_has_sent_to_the_line_stays_there(
    scene: Scene,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind many runs of a full job a claim may be cut short: the next one goes on from there."""
    full, free = a_job("full", max_running=1), a_job("free")
    await scene.store.add_jobs([full, free])
    for n in range(60):
        await scene.store.add_run(a_request(full, rank=n), NOW)
    await scene.store.add_run(a_request(free, rank=100), NOW)
    assert len(await scene.other.claim(1)) == 1
    monkeypatch.setattr(working, "_MOST_AT_ONCE", 10)
    asked, left = Session.ask, [3]

    async def cut_short(session: Session, *statements: str) -> list[Answer]:
        left[0] -= statements[-1] == "COMMIT"
        if not left[0]:
            raise ConnectionError("cut short")
        return await asked(session, *statements)

    monkeypatch.setattr(Session, "ask", cut_short)
    with pytest.raises(StoreUnavailable):
        await scene.worker.claim(10)
    monkeypatch.setattr(Session, "ask", asked)
    waiting = await scene.store.list_runs(RunFilter(states=frozenset({RunState.BLOCKED}), limit=100))
    assert 10 <= len(waiting) < 59
    assert [each.run.job_id for each in await scene.worker.claim(10)] == ["free"]


async def test_a_claim_ends_soon(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A claim that has sent runs to the line for 0.3 s begins no other transaction: its node has beats to send."""
    full = await add_job(scene.store, "full", max_running=1)
    await add_runs(scene.store, full, 60)
    assert len(await scene.other.claim(1)) == 1
    monkeypatch.setattr(working, "_MOST_AT_ONCE", 10)
    monkeypatch.setattr(working, "monotonic", count(0, 0.2).__next__)
    assert await scene.worker.claim(10) == []
    waiting = await scene.store.list_runs(RunFilter(states=frozenset({RunState.BLOCKED}), limit=100))
    assert 10 <= len(waiting) < 40


async def test_a_full_job_before_many_queues_costs_few_looks(
    scene: Scene,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim passes hundreds of runs of a full job in a few looks at the heads of all queues, and keeps the order."""
    full, others = a_job("full", max_running=1, queue="full"), [a_job(f"job-{n}", queue=f"q{n}") for n in range(50)]
    await scene.store.add_jobs([full, *others])
    for n in range(300):
        await scene.store.add_run(a_request(full, rank=n), NOW)
    for n in range(100):
        await scene.store.add_run(a_request(others[n % 50], rank=1000 + n), NOW)
    monkeypatch.setattr(working, "_MOST_AT_ONCE", 40)
    asked, looks = Session.ask, list[str]()

    async def watched(session: Session, *statements: str) -> list[Answer]:
        looks.extend(each for each in statements if " AS head" in each)
        return await asked(session, *statements)

    monkeypatch.setattr(Session, "ask", watched)
    claim = a_claim(scene.worker.id, [lane_of(job.definition) for job in (full, *others)], 8)
    taken = await scene.store.claim(claim, NOW)
    assert [each.run.rank for each in taken] == [0, *range(1000, 1007)]
    assert len(looks) <= 25
