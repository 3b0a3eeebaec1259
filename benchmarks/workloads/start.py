"""W8, second part: how long a node takes to start on a store with 100,000 schedules."""

import asyncio
import time
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtMost, Figures, Quantity, Trial
from benchmarks.in_process_node import add_jobs, opened_store, store_url
from benchmarks.rounds import in_turn
from benchmarks.serving import serving
from tokimori.model.job import Definition
from tokimori.model.target import Noop

UP = "up after"
EMPTY = "Tokimori, empty store"
WITHIN = 1.0


def tokimori(jobs: int, folder: Path) -> Figures:
    """From the start of the program until the node takes part and its HTTP door is open."""
    asyncio.run(_fill(folder, jobs))
    began = time.perf_counter()
    with serving(folder, "--port", "0"):
        return {UP: time.perf_counter() - began}


async def _fill(folder: Path, jobs: int) -> None:
    """Daily jobs, spread over the minutes of the day."""
    async with opened_store(store_url(folder)) as store:
        await add_jobs(store, [(f"job-{number}", _daily(number)) for number in range(jobs)])


def _daily(number: int) -> Definition:
    return Definition(target=Noop(), schedule=f"{number % 60} {number // 60 % 24} * * *", time_zone="Europe/Paris")


def trial(quick: bool) -> Trial:
    """The node with all the schedules against one without any."""
    jobs = 10_000 if quick else 100_000
    return Trial(
        title=f"start of a node with {jobs:,} stored schedules on SQLite",
        quantities=[Quantity(UP, "s")],
        targets=[AtMost(UP, WITHIN)],
        measure=in_turn({TOKIMORI: partial(tokimori, jobs), EMPTY: partial(tokimori, 0)}),
    )
