"""W5: how fast commands that do nothing are run, 32 at a time."""

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import drain, fill, store_url
from benchmarks.rounds import in_turn
from tokimori.model.job import Definition
from tokimori.model.target import Command

RATE = "run"
LIMIT = "bare posix_spawn"
PROGRAM = "/bin/true"
PARALLEL = 32
SHARE = 0.5


def tokimori(runs: int, folder: Path) -> Figures:
    """A node and its keeper: claimed, spawned in a session of its own with a file for output, watched, settled."""
    asyncio.run(fill(store_url(folder), Definition(target=Command(argv=(PROGRAM,))), runs))
    return {RATE: runs / asyncio.run(drain(store_url(folder), folder, runs, PARALLEL)).seconds}


def limit(runs: int, folder: Path) -> Figures:
    """`os.posix_spawn` and `os.waitpid`, nothing kept."""
    began = time.perf_counter()
    alive = started = 0
    while started < runs or alive:
        if alive < PARALLEL and started < runs:
            os.posix_spawn(PROGRAM, [PROGRAM], {})
            alive, started = alive + 1, started + 1
        else:
            os.waitpid(-1, 0)
            alive -= 1
    return {RATE: runs / (time.perf_counter() - began)}


def trials(quick: bool) -> Sequence[Trial]:
    """One trial."""
    runs = 1_000 if quick else 5_000
    return [
        Trial(
            title=f"{runs:,} times {PROGRAM}, {PARALLEL} at a time",
            quantities=[Quantity(RATE, "runs/s", more=True)],
            targets=[AtLeast(RATE, LIMIT, SHARE)],
            measure=in_turn({TOKIMORI: partial(tokimori, runs), LIMIT: partial(limit, runs)}),
        )
    ]


WORKLOAD = Workload("W5", "commands", trials)
