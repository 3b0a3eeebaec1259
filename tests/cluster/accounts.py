"""Jobs whose every occurrence is accounted for: made, stopped, and read back from the store."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from tests.cluster.checker import History, Ledger, take_overs
from tests.cluster.fleet import SHELL, Fleet, writes_lines
from tokimori.client.asynchronous import AsyncClient
from tokimori.clock import Moment, SystemClock
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job
from tokimori.model.policies import Misfire
from tokimori.model.run import Run
from tokimori.model.target import Command, Noop
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.store import RunFilter, Store
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments
from tokimori.service.service import service_on
from tokimori.stores.open import open_store

EVERY_SECOND = "* * * * * *"
POLL = 0.5
LIVE = frozenset(RunState) - ENDS


def definition(number: int, lines: Path, writers: int) -> Definition:
    """One of so many jobs writes lines, and some of these take their time; the others do nothing."""
    naps = {1: "sleep 0.3", 2: "sleep 3"}
    shell = writes_lines(lines, naps.get(number // writers % 5, ""))
    return Definition(
        target=Noop() if number % writers else Command(shell=shell, shell_path=SHELL, cwd=str(lines.parent)),
        schedule=EVERY_SECOND,
        max_running=0,
        misfire=Misfire.ALL,
    )


async def prepare(fleet: Fleet, jobs: int, writers: int = 2, **terms: object) -> None:
    """Make the store and its jobs; one of so many writes lines. `terms`: what else their definitions say."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    await store.migrate()
    service = service_on(store, SystemClock(), os.urandom)
    definitions = [replace(definition(n, fleet.lines, writers), **terms) for n in range(jobs)]
    await service.jobs.import_all([(f"job-{n:03}", each) for n, each in enumerate(definitions)])
    await store.close()


@dataclass(frozen=True, slots=True)
class Finish:
    """Of each job, between which moments its schedule was taken away.

    The first is the service's: by its clock, which may be some milliseconds behind this machine's, an edit is made.
    """

    asked: Mapping[JobId, Moment]
    acknowledged: Mapping[JobId, Moment]


async def finish(fleet: Fleet, jobs: int, patience: float) -> Finish:
    """Take the schedule from every job, and wait until all runs have ended."""
    store, clock = open_store(fleet.url, SystemClock()), SystemClock()
    await store.open()
    service = service_on(store, clock, os.urandom)
    asked, acknowledged = {}, {}
    for n in range(jobs):
        job_id = JobId(f"job-{n:03}")
        asked[job_id] = await service.db.now()
        await service.jobs.update(job_id, schedule=None)
        acknowledged[job_id] = clock.now()
    for _ in range(round(patience / POLL)):
        if not await live_runs(store):
            break
        await asyncio.sleep(POLL)
    await store.close()
    return Finish(asked, acknowledged)


async def _listed(store: Store | AsyncClient, wanted: RunFilter) -> Sequence[Run]:
    if not isinstance(store, AsyncClient):
        return await store.list_runs(wanted)
    found = await store._inside.runs.list(
        job_id=wanted.job_id, state=wanted.states, before=wanted.before, limit=wanted.limit
    )
    return found.runs


async def live_runs(store: Store | AsyncClient) -> list[Run]:
    """Runs that have not ended."""
    return list(await _listed(store, RunFilter(states=LIVE, limit=1000)))


async def read(fleet: Fleet, jobs: int, finish: Finish) -> History:
    """Everything that the store knows, and what the jobs wrote."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    ledgers, attempts = [], {}
    for n in range(jobs):
        job = await store.get_job(JobId(f"job-{n:03}"))
        ledgers.append(await _ledger(store, job, finish))
        for run in ledgers[-1].runs:
            if run.attempt > 1:
                attempts[run.id] = await store.attempts(run.id)
    nodes = await store.list_nodes(limit=1000)
    await store.close()
    silences = {node.id: fleet.silences[node.pid] for node in nodes if node.pid in fleet.silences}
    alive = [node.id for node in nodes if node.state is NodeState.ALIVE and node.pid not in fleet.silences]
    return History(ledgers=ledgers, attempts=attempts, lines=fleet.written(), silences=silences, alive=alive)


async def _ledger(store: Store, job: Job, finish: Finish) -> Ledger:
    """The occurrences are reckoned here, from what was due by this machine's clock."""
    schedule = parse_schedule(EVERY_SECOND)
    asked, acknowledged = finish.asked[job.id], finish.acknowledged[job.id]
    return Ledger(
        job_id=job.id,
        expected=next_moments(schedule, job.created, count_until(schedule, job.created, asked)[0]),
        tolerated=next_moments(schedule, asked, count_until(schedule, asked, acknowledged)[0]),
        runs=await all_runs(store, job.id),
        skips=await store.skips(job.id),
        writes_lines=isinstance(job.definition.target, Command),
    )


async def all_runs(store: Store | AsyncClient, job_id: JobId) -> list[Run]:
    """All runs of a job, page by page."""
    runs: list[Run] = []
    while True:
        before = runs[-1].id if runs else None
        page = await _listed(store, RunFilter(job_id=job_id, before=before, limit=1000))
        if not page:
            return runs
        runs += page


def report(history: History) -> None:
    """Print what was proved."""
    runs = sum(len(ledger.runs) for ledger in history.ledgers)
    found = take_overs(history)
    slowest = max((one.seconds for one in found), default=0.0)
    print(f"{runs} runs, {len(found)} lost attempts, the slowest begun again {slowest:.1f} s after the silence")
