"""Jobs whose every occurrence is accounted for: made, stopped, and read back from the store."""

import asyncio
import os
from pathlib import Path

from tests.cluster.checker import Ledger
from tests.cluster.fleet import START_LINE, Fleet
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Command, Definition, Job, Noop
from tokimori.model.policies import Misfire
from tokimori.model.run import Attempt, Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments
from tokimori.service.service import Service
from tokimori.stores.open import open_store

EVERY_SECOND = "* * * * * *"
POLL = 0.5
LIVE = frozenset(RunState) - ENDS


def definition(number: int, lines: Path) -> Definition:
    """Half of the jobs do nothing, the others write a line when they begin, and some of them take their time."""
    naps = {1: "", 3: "sleep 0.3; ", 5: "sleep 3; "}
    write = f"{START_LINE}{lines}"
    shell = write if number % 10 not in (3, 5) else f"({write}); {naps[number % 10]}true"
    return Definition(
        target=Noop() if number % 2 == 0 else Command(shell=shell, cwd=str(lines.parent)),
        schedule=EVERY_SECOND,
        max_running=0,
        misfire=Misfire.ALL,
    )


async def prepare(fleet: Fleet, jobs: int) -> None:
    """Make the store and its jobs."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    await store.migrate()
    service = Service(store, SystemClock(), os.urandom)
    await service.import_all([(f"job-{n:02}", definition(n, fleet.lines)) for n in range(jobs)])
    await store.close()


async def finish(fleet: Fleet, jobs: int, patience: float) -> None:
    """Take the schedule from every job, and wait until all runs have ended."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    service = Service(store, SystemClock(), os.urandom)
    for n in range(jobs):
        await service.update(f"job-{n:02}", {"schedule": None})
    for _ in range(round(patience / POLL)):
        if not await live_runs(store):
            break
        await asyncio.sleep(POLL)
    await store.close()


async def live_runs(store: Store) -> list[Run]:
    """Runs that have not ended."""
    return await store.list_runs(RunFilter(states=LIVE, limit=1000))


async def read(fleet: Fleet, jobs: int) -> tuple[list[Ledger], dict[RunId, list[Attempt]]]:
    """Everything that the store knows."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    ledgers, attempts = [], {}
    for n in range(jobs):
        job = await store.get_job(JobId(f"job-{n:02}"))
        runs = await all_runs(store, job.id)
        ledgers.append(
            Ledger(
                job_id=job.id,
                expected=expected(job),
                runs=runs,
                skips=await store.skips(job.id),
                writes_lines=isinstance(job.definition.target, Command),
            )
        )
        for run in runs:
            if run.attempt > 1:
                attempts[run.id] = await store.attempts(run.id)
    await store.close()
    return ledgers, attempts


async def all_runs(store: Store, job_id: JobId) -> list[Run]:
    """All runs of a job, page by page."""
    runs: list[Run] = []
    while True:
        before = runs[-1].id if runs else None
        page = await store.list_runs(RunFilter(job_id=job_id, before=before, limit=1000))
        if not page:
            return runs
        runs += page


def expected(job: Job) -> list[Moment]:
    """The occurrences from the job's first moment to the last that was decided."""
    schedule = parse_schedule(EVERY_SECOND)
    return next_moments(schedule, job.created, schedule.count(job.created, job.fired_through))


def report(ledgers: list[Ledger], attempts: dict[RunId, list[Attempt]], deaths: list[Moment]) -> None:
    """Print what was proved."""
    runs = sum(len(ledger.runs) for ledger in ledgers)
    lost = [attempt for rows in attempts.values() for attempt in rows if attempt.outcome == "lost"]
    slowest = max(
        (attempt.ended or Moment(0)) - max(d for d in deaths if d <= (attempt.ended or 0)) for attempt in lost
    )
    print(f"{runs} runs, {len(lost)} lost attempts, slowest reaped {slowest / SECOND:.1f} s after the death")
