"""A store with something of everything in it."""

import os
from collections.abc import Sequence

from msgspec.structs import replace

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_job,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
)
from tokimori.clock import SECOND
from tokimori.model.attempt_notes import Notes, notes_row
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.dependents import Join, Parent
from tokimori.model.document import Document
from tokimori.model.ids import RunId, uuid7
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause, lane_of
from tokimori.model.outcome import Cancelled, Failed, Lost, Outcome, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.retention import expiry_of, expiry_of_deleted
from tokimori.model.run import Output, Skip, SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store

OPEN = {RunState.WAITING, RunState.READY, RunState.BLOCKED, RunState.HELD}
"""In which runs are there."""
DOCUMENTS = (
    Document(kind="calendar", name="de", text='{"name":"de","description":"Feiertage „de“"}', version=2**48),
    Document(kind="calendar-like", name="a", text="\n'\"\\", version=2),
    Document(kind="calendar", name="a b", text="", version=2**62 + 1),
    Document(kind="Rule", name="ä/􏿿", text="5", version=1),
)
PRUNED = ("pruned", "z-gone", "gone", "forgotten")
"""Of which rows became counts: a job that exists, two that left rows, and one of which nothing else is left."""


async def fill(store: Store) -> None:
    """Rows of every kind, and a run in every state but running; nobody works there any more."""
    worker = await Worker.join(store)
    await store.add_pause(Pause(queue="mail", since=NOW, reason="Störung", by="ann"))
    for document in DOCUMENTS:
        await store.put_document(document, None)
    await _prune_some(store, worker)
    await _end_some(store, worker)
    await _keep_some_open(store, worker)
    await _skip_some(store)
    await _leave_some_in_line(store, worker)
    assert await store.leave(worker.id, later(100))


async def _end_some(store: Store, worker: Worker) -> None:
    """Runs of every end, with attempts and outputs, and a child whose other parent has not run yet."""
    mother, failing = await add_job(store, "mother"), await add_job(store, "failing")
    await add_job(store, "father")
    child = a_job("child", parents=(Parent(job="mother"), Parent(job="father")), join=Join.ALL)
    await store.add_jobs([child], (await store.family()).version)
    ends: Sequence[tuple[object, Outcome]] = (
        (failing, Failed("nö\n")),
        (failing, Cancelled("enough")),
        (mother, Succeeded(0, result='{"x": 1}')),
    )
    for job, outcome in ends:
        await store.add_run(a_request(job, payload='{"ü": null}'), NOW)  # type: ignore[arg-type]
        (claimed,) = await worker.claim()
        output = Output(
            run_id=claimed.run.id, attempt=1, size=9, head=b"\x00\xff\r\n", tail=b"tail\xc3", times=b"\xff\x00"
        )
        await store.settle([worker.change(claimed, outcome, output=output)], worker.id, NOW)


async def _keep_some_open(store: Store, worker: Worker) -> None:
    """Runs that wait, for their moment or a retry, are ready, blocked or held, or stand still with their job."""
    again = await add_job(store, "again", retry=Retry(attempts=2, delay=60.0))
    await store.add_run(a_request(again), NOW)
    (claimed,) = await worker.claim()
    await store.save_outputs([notes_row(claimed.run.id, Notes(attempt=1, checkpoint='"ü"'))])
    await worker.settle(claimed, Failed("once more"))
    limited = await add_job(store, "limited", max_running=1)
    await add_runs(store, limited, 4)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Lost("gone"))
    await store.add_run(a_request(limited, "later", due=later(30)), NOW)
    await store.hold_run((await store.add_run(a_request(limited, "held"), NOW)).id, "später")
    paused = await add_job(store, "paused")
    await add_runs(store, paused, 2)
    changed = replace(paused, version=2, state=JobState.PAUSED, reason="why", by="ann")
    await store.replace_job(paused, changed)


async def _skip_some(store: Store) -> None:
    """Rows of the ledger, and a job that has fired."""
    every = await add_job(store, "every", schedule=EVERY_SECOND, next_due=later(1))
    skips = [Skip(first=later(-n), last=later(-n), count=1, reason=SkipReason.PAUSED) for n in (3, 2, 1)]
    await store.replace_job(every, replace(every, version=2), skips)
    await fire(store, later(3))


async def _leave_some_in_line(store: Store, worker: Worker) -> None:
    """Semaphores, one of which a program holds as long as the worker is there, and runs that stand in the lines."""
    await store.put_semaphore("api", 5, NOW, ClaimRate(1000, SECOND))
    assert (await worker.acquire("db")).token == 1
    mutual = await add_job(store, "mutual", semaphores=("db", "api:2"), concurrency_key="ä", queue="mutual")
    await add_runs(store, mutual, 3)
    assert await store.claim(a_claim(worker.id, [lane_of(mutual.definition)], 9), NOW) == []


async def _prune_some(store: Store, worker: Worker) -> None:
    """Counts of a job that exists, of deleted ones that left rows, two of them under one id, and of a forgotten one."""
    expiries = [expiry_of(await _add_past(store, worker, "pruned", (40, 20)), NOW)]
    for name, days in (("z-gone", (40, 20)), ("gone", (40, 20)), ("gone", (40, 20)), ("forgotten", (40,))):
        job = await _add_past(store, worker, name, days)
        await store.delete_job(job.id, NOW)
        expiries.append(expiry_of_deleted(job.id, job.incarnation, NOW))
    assert not await store.prune([each for each in expiries if each], 100)


async def _add_past(store: Store, worker: Worker, name: str, days: Sequence[int]) -> Job:
    """A job of which a run failed and an occurrence was skipped so many days ago."""
    job = await add_job(store, name, keep_runs=0)
    moments = [later(-each * 86400) for each in days]
    for moment in moments:
        await store.add_run(a_request(job, id=RunId(uuid7(moment, os.urandom))), NOW)
        (claimed,) = await worker.claim()
        output = Output(run_id=claimed.run.id, attempt=1, size=1, head=b"x")
        await store.settle([worker.change(claimed, Failed("old"), moment, output)], worker.id, NOW)
    skips = [Skip(first=moment, last=moment, count=3, reason=SkipReason.OVERLAP) for moment in moments]
    changed = replace(job, version=2)
    await store.replace_job(job, changed, skips)
    return changed
