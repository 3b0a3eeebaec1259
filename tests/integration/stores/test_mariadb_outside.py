"""What a program adds in a transaction of its own, which stays open: nobody else waits for it."""

import asyncio
from pathlib import Path

import pymysql
import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, a_request, add_job, fire, later
from tests.integration.client.shops import place_of
from tests.integration.stores.scenes import Scene
from tests.servers import mariadb
from tokimori.client.transactions import add_within
from tokimori.model.job import Job, JobState
from tokimori.model.policies import Overlap
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.stores.mysql.store import MysqlStore

WAITS = 1.5
"""Seconds: less than the server lets anybody wait for a lock."""


@pytest.fixture
async def job(scene: Scene) -> Job:
    """A job of which a run is ready."""
    overlap = Overlap.REPLACE
    job = await add_job(scene.store, schedule=EVERY_SECOND, next_due=later(1), max_running=1, on_overlap=overlap)
    await fire(scene.store, later(1))
    return job


async def add_outside(scene: Scene, program: "pymysql.Connection[pymysql.cursors.Cursor]", job: Job) -> Run:
    """A run in a transaction of the program, which can see what had been there when it began."""
    assert isinstance(scene.store, MysqlStore)
    program.cursor().execute("SELECT 1 FROM tokimori_jobs")
    run = replace(a_request(job), state=RunState.WAITING, lane=None)
    assert add_within(program, run, await scene.store.outside()) == run.id
    return run


async def test_a_transaction_of_a_program_keeps_nobody_waiting(scene: Scene, job: Job, tmp_path: Path) -> None:
    """Not who replaces runs of its job, claims, promotes, pauses or deletes; and it ends with the job."""
    with pymysql.connect(**place_of(mariadb.loans.url_of(tmp_path))) as program:
        run = await add_outside(scene, program, job)
        async with asyncio.timeout(WAITS):
            await fire(scene.store, later(2))
            assert [each.run.nominal for each in await scene.worker.claim()] == [later(2)]
            assert await scene.store.promote(later(2), 10) == 0
        async with asyncio.timeout(WAITS):
            before = await scene.store.get_job(job.id)
            stopped = replace(before, state=JobState.PAUSED, version=before.version + 1)
            await scene.store.replace_job(before, stopped)
            await scene.store.delete_job(job.id, NOW)
            await scene.store.finish_moves()
        program.commit()
    assert await scene.store.promote(later(2), 10) == 1
    await scene.store.finish_moves()
    assert (await scene.store.get_run(run.id)).state is RunState.CANCELLED
