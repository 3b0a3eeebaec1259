"""W17: what a rate costs that never refuses: a drain on PostgreSQL, beside one under a semaphore that never does."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import CONCURRENCY, drain, fill, opened_store
from benchmarks.postgres_server import on_one_server
from benchmarks.workloads.postgres_drain import OWN_CPU, QUANTITIES, SERVER_CPU, figures
from tokimori.clock import SystemClock
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.service.service import service_on

CPU = "CPU of both"
SEMAPHORE, RATE = "a semaphore that never refuses", "10000/s"
OF_A_JOB, WITHOUT = "a rate of the job that never refuses", "neither"
JOBS: Mapping[str, Definition] = {
    TOKIMORI: Definition(target=Noop(), semaphores=("api",)),
    SEMAPHORE: Definition(target=Noop(), semaphores=("api",)),
    OF_A_JOB: Definition(target=Noop(), rate_limit=RATE),
    WITHOUT: Definition(target=Noop()),
}


async def _fill(name: str, url: str, runs: int) -> None:
    async with opened_store(url) as store:
        service = service_on(store, SystemClock(), os.urandom)
        await service.semaphores.set("api", limit=runs, rate=RATE if name == TOKIMORI else "none")
    await fill(url, JOBS[name], runs)


def drained(name: str, runs: int, url: str, folder: Path) -> Figures:
    """The runs of a job whose claims are counted in this way."""
    asyncio.run(_fill(name, url, runs))
    found = figures(url, runs, lambda: asyncio.run(drain(url, folder, runs, CONCURRENCY)))
    return {**found, CPU: found[OWN_CPU] + found[SERVER_CPU]}


def trials(quick: bool) -> Sequence[Trial]:
    """One trial."""
    runs = 2_000 if quick else 10_000
    return [
        Trial(
            title=f"drain of {runs:,} due no-ops under a rate, PostgreSQL, fsync and synchronous_commit on",
            quantities=[*QUANTITIES, Quantity(CPU, "µs/run")],
            targets=[AtLeast(CPU, SEMAPHORE, 1 / 1.1)],
            measure=on_one_server({name: partial(drained, name, runs) for name in JOBS}),
        )
    ]


WORKLOAD = Workload("W17", "what a rate costs that never refuses", trials)
