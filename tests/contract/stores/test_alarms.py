"""Alarms are raised and taken back on every store, by one of several nodes."""

import asyncio
from math import inf

import pytest

from tests.contract.stores.actors import NOW, Worker, a_job, add_runs, later, random_bytes
from tokimori.clock import Moment
from tokimori.engine.overdue import Overdue
from tokimori.model.expectation import ALARM_KIND, KIND, AlarmKind, decode_alarm, decode_expectation
from tokimori.model.outcome import Failed, Succeeded
from tokimori.ports.store import Store
from tokimori.service.expectations import Expectations
from tokimori.service.jobs.writer import schedule_for


async def walk(store: Store, worker: Worker, now: Moment) -> None:
    """Two nodes look at the same time at all that is expected; their clocks differ a little."""
    duties = [Overdue(store, 0, schedule_for) for _ in range(2)]
    for duty in duties:
        duty.next_at = -inf
    await asyncio.gather(*(duty.step(worker.id, Moment(now + n), 0) for n, duty in enumerate(duties)))


async def test_an_alarm_comes_and_goes(store: Store, worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    """A failure does not keep it off, a good end takes it back; its document is written once."""

    async def now() -> Moment:
        return NOW

    job = a_job(expect_within=100.0)
    await Expectations(store, now, random_bytes)._of_job(job.id, job.definition)
    await store.add_jobs([job])
    await add_runs(store, job, 2)
    (failing,) = await worker.claim(limit=1)
    await worker.settle(failing, Failed("broken"))
    await walk(store, worker, later(99))
    assert await store.list_documents(ALARM_KIND) == []
    await walk(store, worker, later(100))
    (raised,) = await store.list_documents(ALARM_KIND)
    alarm = decode_alarm(raised.text)
    assert caplog.text.count("should have ended well by now: job job (overdue)") == 1
    assert (alarm.kind, alarm.name, alarm.expected_by) == (AlarmKind.OVERDUE, job.id, later(100))
    await walk(store, worker, later(111))
    assert await store.list_documents(ALARM_KIND) == [raised]
    (good,) = await worker.claim(limit=1)
    await worker.settle(good, Succeeded(), later(120))
    await walk(store, worker, later(122))
    assert await store.list_documents(ALARM_KIND) == []
    (known,) = await store.list_documents(KIND)
    ended = (await store.get_run(good.run.id)).ended
    assert decode_expectation(known.text).good == ended


async def test_a_job_that_is_gone_is_forgotten(store: Store, worker: Worker) -> None:
    """With its alarm, by the next look."""

    async def now() -> Moment:
        return NOW

    job = a_job(expect_within=5.0)
    await Expectations(store, now, random_bytes)._of_job(job.id, job.definition)
    await store.add_jobs([job])
    await walk(store, worker, later(6))
    assert len(await store.list_documents(ALARM_KIND)) == 1
    await store.delete_job(job.id, later(7))
    await walk(store, worker, later(70))
    assert (await store.list_documents(ALARM_KIND), await store.list_documents(KIND)) == ([], [])
