"""How far a store counts what is active."""

import asyncio
import os

import pytest

from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run
from tokimori.model.ids import RunId, uuid7
from tokimori.model.run import manual_origin
from tokimori.ports.store import Store


@pytest.mark.parametrize(("max_running", "counted"), [(0, 1001), (1200, 1100)])
async def test_a_large_limit_is_counted_up_to(store: Store, max_running: int, counted: int) -> None:
    """Where a job may run more than catch-up counts, its overlap is decided by what is really active."""
    job = a_job(a_definition(max_running=max_running))
    await store.add_jobs([job])
    ids = [RunId(uuid7(NEW_YEAR, os.urandom)) for _ in range(1100)]
    runs = [a_run(id=each, job_id=job.id, incarnation=job.incarnation, origin=manual_origin(each)) for each in ids]
    await asyncio.gather(*(store.add_run(run, NEW_YEAR) for run in runs))
    assert counted <= (await store.get_due(job.id)).active <= len(runs)
