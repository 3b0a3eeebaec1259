"""W6: what a program costs that has nothing to do: real processes with a few jobs that are far away."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.apscheduler_peer import APSCHEDULER, LOOKING
from benchmarks.comparison import TOKIMORI, AtLeast, AtMost, Figures, Quantity, Round, Trial, Workload
from benchmarks.in_process_node import add_jobs, opened_store, store_url
from benchmarks.serving import running, serving, wait_for_line
from tokimori.model.job import Definition
from tokimori.model.target import Noop

COST = "CPU"
BUDGET = 0.3
"""CPU seconds a minute."""
SETTLING = 5.0
"""Seconds until nothing is left of a start."""
HUEY = "Huey"

HUEY_PROGRAM = """
from huey import SqliteHuey, crontab
huey = SqliteHuey(filename="huey.db", fsync=True)
for number in range(5):
    huey.periodic_task(crontab(minute="0", hour="0", day="29", month="2"), name=f"far-{number}")(print)
"""
APSCHEDULER_PROGRAM = """
import sys
from apscheduler.schedulers.blocking import BlockingScheduler
scheduler = BlockingScheduler(timezone="UTC")
scheduler.add_jobstore("sqlalchemy", url=f"sqlite:///{sys.argv[1]}.db")
for number in range(5):
    scheduler.add_job(print, "cron", day=29, month=2)
if sys.argv[1] == "looking":
    scheduler.add_jobstore("memory", alias="looking")
    scheduler.add_job(int, "interval", seconds=2, jobstore="looking")
print("up", flush=True)
scheduler.start()
"""
"""`looking`: it sees within 2 s what others store, as a node does at the latest; a job in its memory wakes it up."""


def _round(seconds: float) -> Round:
    """All of them idle at the same time, so that what disturbs the machine disturbs them all."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tokimori-bench-")))
        asyncio.run(_fill(folder))
        node = stack.enter_context(serving(folder, "--port", "0"))
        (folder / "far.py").write_text(HUEY_PROGRAM)
        huey = stack.enter_context(running([str(Path(sys.executable).with_name("huey_consumer")), "far.huey"], folder))
        pids = {TOKIMORI: node.pid, HUEY: huey.pid}
        for name, how in ((APSCHEDULER, "sleeping"), (LOOKING, "looking")):
            command = [sys.executable, "-c", APSCHEDULER_PROGRAM, how]
            scheduler = stack.enter_context(running(command, folder))
            wait_for_line(scheduler, "up")
            pids[name] = scheduler.pid
        time.sleep(SETTLING)
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        time.sleep(seconds)
        return {name: _a_minute(cpu_seconds(pid) - before[name], seconds) for name, pid in pids.items()}


async def _fill(folder: Path) -> None:
    far = Definition(target=Noop(), schedule="0 0 29 2 *")
    async with opened_store(store_url(folder)) as store:
        await add_jobs(store, [(f"far-{number}", far) for number in range(5)])


def _a_minute(cpu: float, seconds: float) -> Figures:
    return {COST: cpu * 60 / seconds}


def cpu_seconds(pid: int) -> float:
    """What the process and its children have used: of a node, itself and its keeper.

    The clock of another process is the complement of its id with three bits for its kind: 2 is the scheduler's count,
    in nanoseconds, where /proc counts hundredths of a second (clock_getcpuclockid(3)).
    """
    return time.clock_gettime((~pid << 3) | 2) + sum(cpu_seconds(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    lists = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for children in lists for child in children.split()]


def trials(quick: bool) -> Sequence[Trial]:
    """One trial, of two minutes."""
    seconds = 10.0 if quick else 60.0
    return [
        Trial(
            title=f"idle for {seconds:g} s with 5 far-away jobs on SQLite; the node with its HTTP door and its keeper",
            quantities=[Quantity(COST, "CPU s/min")],
            targets=[AtMost(COST, BUDGET), *(AtLeast(COST, name, 1) for name in (HUEY, APSCHEDULER, LOOKING))],
            measure=lambda _: _round(seconds),
            most_rounds=2,
        )
    ]


WORKLOAD = Workload("W6", "idle cost", trials)
