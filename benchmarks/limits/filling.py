"""A store as large as they come: jobs by the service's own values, runs with the columns that a copy writes."""

import os
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.limits.bulk import PAGE, Writes, pages, writer
from tokimori.clock import DAY, MINUTE, SECOND, Moment, SystemClock
from tokimori.model.ids import JobId, NodeId, RunId, Token, new_incarnation, uuid7
from tokimori.model.job import Definition, Job
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Attempt, Details, Run, manual_origin
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.store import Store
from tokimori.service.definitions.edits import new_job

RUNS_A_QUEUE = 10
HISTORY_DAYS = 700
"""Over so many days the history is spread: most of it is to be pruned."""
PAYLOAD = 1_000_000
LARGE_PAGE = 4


class Size(NamedTuple):
    """How much there is: waiting runs of one job and as many ended ones, queues, jobs, runs with a large payload."""

    rows: int = 1_000_000
    queues: int = 2_000
    jobs: int = 100_000
    payloads: int = 200

    @property
    def limited(self) -> int:
        """Runs of a job with a limit of one, that are due before all others."""
        return self.rows // 100


class Filled(NamedTuple):
    """The jobs that are measured."""

    big: Job
    """Has `rows` runs that wait, and a history as long."""
    fat: Job
    """Its runs have large payloads, the ended ones too."""
    limited: Job
    queued: list[Job]
    """One in each queue."""


async def fill(store: Store, url: str, size: Size) -> Filled:
    """Fill an empty store."""
    now = SystemClock().now()
    big = _job("big", now, queue="big", on_exhausted=OnExhausted.PARK)
    fat, limited = _job("fat", now, queue="fat"), _job("limited", now, queue="limited", max_running=1)
    queued = [_job(f"queue-{n:06}", now, queue=f"q{n:06}") for n in range(size.queues)]
    others = (_job(f"job-{n:06}", now, schedule="H H * * *") for n in range(size.jobs - size.queues - 3))
    await _write_jobs(store, [big, fat, limited, *queued])
    await _write_jobs(store, others)
    async with writer(store, url) as write:
        await _history(write, big, now, size.rows)
        await _history(write, fat, now, size.payloads, "x" * PAYLOAD)
        await write(Kind.RUNS, _ready(big, now, size.rows))
        await write(Kind.RUNS, _ready(fat, now, size.payloads, "x" * PAYLOAD), LARGE_PAGE)
        await write(Kind.RUNS, _ready(limited, Moment(now - DAY), size.limited))
        await write(Kind.RUNS, (run for job in queued for run in _ready(job, now, RUNS_A_QUEUE)))
    return Filled(big, fat, limited, queued)


async def _history(write: Writes, job: Job, now: Moment, number: int, payload: str | None = None) -> None:
    """With the attempts of those that failed: a first success has none."""
    failed: list[Attempt] = []

    def noting(runs: Iterable[Run]) -> Iterator[Run]:
        for run in runs:
            if run.state is RunState.FAILED:
                failed.append(_attempt(run))
            yield run

    await write(Kind.HISTORY, noting(_ended(job, now, number, payload)), PAGE if payload is None else LARGE_PAGE)
    await write(Kind.ATTEMPTS, failed)


def _job(name: str, now: Moment, **terms: object) -> Job:
    definition = Definition(target=Noop(), **terms)  # type: ignore[arg-type]
    return new_job(JobId(name), definition, new_incarnation(os.urandom), now)


def _ready(job: Job, now: Moment, number: int, payload: str | None = None) -> Iterator[Run]:
    """Requests of the last hour, in the order in which they came."""
    for n in range(number):
        yield _run(job, Moment(now - (number - n) * 60 * MINUTE // number), payload)


def _ended(job: Job, now: Moment, number: int, payload: str | None = None) -> Iterator[Run]:
    """The history, from its oldest run on: one in a hundred has failed."""
    node = NodeId(uuid7(now, os.urandom))
    for n in range(number):
        made = Moment(now - (number - n) * HISTORY_DAYS * DAY // number)
        run = replace(_run(job, made, payload), attempt=1, token=Token(1), node_id=node, started=made)
        if n % 100 == 0:
            why = Details(cause="failed: broken")
            yield replace(
                run, state=RunState.FAILED, ended=Moment(made + SECOND), failures=1, error="broken", details=why
            )
        else:
            yield replace(run, state=RunState.SUCCEEDED, ended=Moment(made + SECOND), exit_code=0)


def _attempt(run: Run) -> Attempt:
    return Attempt(
        run_id=run.id,
        number=run.attempt,
        token=run.token,
        node_id=run.node_id,
        outcome=str(run.state),
        pid=None,
        started=run.started,
        ended=run.ended,
        exit_code=None,
        signal=None,
        error=run.error,
    )


def _run(job: Job, made: Moment, payload: str | None) -> Run:
    run_id = RunId(uuid7(made, random.randbytes))
    return Run(
        id=run_id,
        job_id=job.id,
        incarnation=job.incarnation,
        origin=manual_origin(run_id),
        nominal=made,
        due=made,
        state=RunState.READY,
        priority=0,
        rank=rank_of(made, 0),
        lane=lane_of(job.definition),
        created=made,
        payload=payload,
    )


async def _write_jobs(store: Store, jobs: Iterable[Job]) -> None:
    for page in pages(jobs, PAGE):
        await store.add_jobs(page, (await store.family()).version)
