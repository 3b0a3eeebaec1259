"""A store as large as they come: jobs by the service's own values, rows of runs by the product's own way of copying."""

import asyncio
import os
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from tokimori.clock import DAY, MINUTE, SECOND, Moment, SystemClock
from tokimori.model.ids import JobId, RunId, new_incarnation, uuid7
from tokimori.model.job import Definition, Job
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Run, manual_origin
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.store import Store
from tokimori.service.edits import new_job

RUNS_A_QUEUE = 10
HISTORY_DAYS = 700
"""Over so many days the history is spread: most of it is to be pruned."""
PAYLOAD = 1_000_000
PAGE, LARGE_PAGE = 500, 4
AT_ONCE = 4
Row = TypeVar("Row")


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


async def fill(store: Store, size: Size) -> Filled:
    """Fill an empty store."""
    now = SystemClock().now()
    big = _job("big", now, queue="big", on_exhausted=OnExhausted.PARK)
    fat, limited = _job("fat", now, queue="fat"), _job("limited", now, queue="limited", max_running=1)
    queued = [_job(f"queue-{n:06}", now, queue=f"q{n:06}") for n in range(size.queues)]
    others = (_job(f"job-{n:06}", now, schedule="H H * * *") for n in range(size.jobs - size.queues - 3))
    await _write_jobs(store, [big, fat, limited, *queued])
    await _write_jobs(store, others)
    await _write(store, Kind.HISTORY, _ended(big, now, size.rows), PAGE)
    await _write(store, Kind.HISTORY, _ended(fat, now, size.payloads, "x" * PAYLOAD), LARGE_PAGE)
    await _write(store, Kind.RUNS, _ready(big, now, size.rows), PAGE)
    await _write(store, Kind.RUNS, _ready(fat, now, size.payloads, "x" * PAYLOAD), LARGE_PAGE)
    await _write(store, Kind.RUNS, _ready(limited, Moment(now - DAY), size.limited), PAGE)
    in_queues = (run for job in queued for run in _ready(job, now, RUNS_A_QUEUE))
    await _write(store, Kind.RUNS, in_queues, PAGE)
    return Filled(big, fat, limited, queued)


def _job(name: str, now: Moment, **terms: object) -> Job:
    definition = Definition(target=Noop(), **terms)  # type: ignore[arg-type]
    return new_job(JobId(name), definition, new_incarnation(os.urandom), now)


def _ready(job: Job, now: Moment, number: int, payload: str | None = None) -> Iterator[Run]:
    """Requests of the last hour, in the order in which they came."""
    for n in range(number):
        yield _run(job, Moment(now - (number - n) * 60 * MINUTE // number), payload)


def _ended(job: Job, now: Moment, number: int, payload: str | None = None) -> Iterator[Run]:
    """The history, from its oldest run on: one in a hundred has failed."""
    for n in range(number):
        made = Moment(now - (number - n) * HISTORY_DAYS * DAY // number)
        run = _run(job, made, payload)
        ended = Moment(made + SECOND)
        state = RunState.FAILED if n % 100 == 0 else RunState.SUCCEEDED
        yield replace(run, state=state, attempt=1, token=1, started=made, ended=ended)


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
    for page in _pages(jobs, PAGE):
        await store.add_jobs(page, (await store.family()).version)


async def _write(store: Store, kind: Kind, rows: Iterable[Run], page: int) -> None:
    """Some pages at a time: so each of the store's connections has work."""
    pages = _pages(rows, page)
    while some := list(islice(pages, AT_ONCE)):
        await asyncio.gather(*(store.import_rows(kind, each) for each in some))


def _pages(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    source = iter(rows)
    while page := list(islice(source, size)):
        yield page
