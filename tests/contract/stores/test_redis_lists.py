"""On Redis who wants few runs does not look at the many others."""

import re
from pathlib import Path

import pytest

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_request, add_job, add_runs, fire, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.model.policies import Overlap
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.stores.redis import runs


async def test_few_that_wait_are_not_looked_for_among_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocked, held and waiting runs are found in a page or two, though many newer ones of the same job are ready."""
    monkeypatch.setattr(runs, "PAGE", 5)
    store = STORES["redis"](tmp_path)
    await store.open()
    await store.migrate()
    job, worker = await add_job(store, max_running=1), await Worker.join(store)
    first, *lined = await add_runs(store, job, 3)
    assert [each.run.id for each in await worker.claim(9)] == [first.id]
    held = await store.hold_run((await store.add_run(a_request(job), NOW)).id, "look")
    waiting = [await store.add_run(a_request(job, due=later(9 - n)), NOW) for n in range(3)]
    await add_runs(store, job, 50)
    pages: list[str] = []
    ask = store.db.run  # type: ignore[attr-defined]

    async def noted(script: str, **terms: object) -> object:
        pages.append(script)
        return await ask(script, **terms)

    store.db.run = noted  # type: ignore[attr-defined]
    for state, wanted in ((RunState.BLOCKED, lined), (RunState.HELD, [held]), (RunState.WAITING, waiting)):
        for job_id in (None, job.id):
            ids = sorted((run.id for run in wanted), reverse=True)
            found = await store.list_runs(RunFilter(job_id=job_id, states=frozenset({state}), limit=9))
            assert [run.id for run in found] == ids
            behind = RunFilter(job_id=job_id, states=frozenset({state}), before=ids[0], limit=9)
            assert [run.id for run in await store.list_runs(behind)] == ids[1:]
    assert len(pages) <= 24
    await store.close()
    forget("redis", tmp_path)


async def test_a_newcomer_does_not_look_at_requested_runs(tmp_path: Path) -> None:
    """Firing ends the scheduled runs before it, and asks the server nothing of those of a backfill, however many."""
    store = STORES["redis"](tmp_path)
    await store.open()
    await store.migrate()
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1, on_overlap=Overlap.REPLACE)
    await fire(store, later(1))
    await store.add_runs([a_request(job, due=later(3600)) for _ in range(300)], NOW)

    async def looks() -> int:
        found = await store.db.do("INFO", "commandstats")  # type: ignore[attr-defined]
        return sum(int(calls) for calls in re.findall(r"cmdstat_h\w+:calls=(\d+)", found))

    before = await looks()
    await fire(store, later(2))
    assert await looks() - before < 100
    live = await store.list_runs(RunFilter(states=frozenset({RunState.READY}), limit=1000))
    assert [run.nominal for run in live] == [later(2)]
    await store.close()
    forget("redis", tmp_path)
