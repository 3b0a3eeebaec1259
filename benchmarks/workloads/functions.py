"""W14: Python functions. How fast no-ops are drained beside peers, how well CPU is used, how soon one starts.

The peers call their no-op in the process of their worker; Tokimori in worker processes, as many as there are cores.
PgQueuer and those on Redis are measured in as many processes, too.
"""

import asyncio
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path

from benchmarks import function_node
from benchmarks.apscheduler_peer import APSCHEDULER
from benchmarks.comparison import TOKIMORI, AtLeast, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.function_app import burn_cpu
from benchmarks.in_process_node import opened_store, store_url
from benchmarks.postgres_server import settle_down
from benchmarks.programs import Program, absent, python_program
from benchmarks.rounds import in_turn
from benchmarks.serving import running, wait_for_line
from benchmarks.store_servers import MeasureThere, Place, StartServer, each_on_its_own, postgres_server, redis_server
from benchmarks.workloads import drain as on_sqlite
from benchmarks.workloads import on_redis, postgres_drain
from tokimori.clock import MILLISECOND, SystemClock
from tokimori.service.service import service_on

RATE, ADDED, MIDDLE, LATE = "drained", "bulk add", "p50", "p99"
RATE_ALONE = (Quantity(RATE, "runs/s", more=True),)
MULTIPROCESSING = "bare multiprocessing"
SIZES: Mapping[int, int] = {10_000: 100, 100_000: 1}
"""So many no-ops, and how many rounds of them are enough: more would take too long."""
FEW, FEW_OF_HUEY = 2_000, 10_000
"""Peers that commit each run alone get no more than so many: their rate does not rise with more."""
LONGEST_ADD = 50.0
"""Microseconds for a run that is added among many: 20,000 a second."""
MANY, AS_USUAL = 64, 16
"""So many runs a process works on at a time: no-ops, of which the peers fetch some hundred, and what uses its core."""
TRIGGERS = 200
APART = 0.05, 0.25
"""Seconds between two of them: the node idles meanwhile."""

EACH = f", {function_node.PROCESSES} processes"
SAQ, PGQUEUERS = "SAQ", postgres_drain.PGQUEUER + EACH
POSTGRES: Mapping[str, Program] = {
    **{name: postgres_drain.PROGRAMS[name] for name in postgres_drain.PROGRAMS if not name.startswith("bare")},
    PGQUEUERS: postgres_drain.PROGRAMS[postgres_drain.PGQUEUER].in_processes(function_node.PROCESSES),
    SAQ: python_program("postgres_peers.saq_worker"),
}
ONE_BY_ONE = (*postgres_drain.ONE_BY_ONE, SAQ)
ARQ, CELERY = "arq", "Celery, 4 threads"
SHARED = [name for name in on_redis.FIELD.python if name != "taskiq, stream"]
"""Not the stream: before its worker reads, nothing of it tells that there is work."""
TWICE_AS_FAST = {
    **on_redis.FIELD.python,
    **{name + EACH: on_redis.FIELD.python[name].in_processes(function_node.PROCESSES) for name in SHARED},
}
AS_FAST = {ARQ: python_program("redis_peers.arq_worker"), CELERY: python_program("redis_peers.celery_worker")}
REDIS: Mapping[str, Program] = {**TWICE_AS_FAST, **AS_FAST, **on_redis.FIELD.others}


# No-ops


def tokimori(runs: int, place: Place, folder: Path) -> Figures:
    """Each run is kept with its start, its end and its worker process."""
    return _drained(runs, place.url, folder)


def tokimori_on_sqlite(runs: int, folder: Path) -> Figures:
    """The same."""
    return _drained(runs, store_url(folder), folder)


def _drained(runs: int, url: str, folder: Path) -> Figures:
    asyncio.run(function_node.ask(url, function_node.NOTHING, runs))
    _settle_down(url)
    return {RATE: runs / asyncio.run(function_node.drain(url, folder, runs, MANY)).seconds}


def peer(program: Program, runs: int, place: Place, _: Path) -> Figures:
    """Its own API stores the runs, its own worker ends them; its docstring says with which settings, and why these."""
    program.call("fill", place.url, runs)
    _settle_down(place.url)
    return {RATE: runs / program.drained(place.url, runs).seconds}


def _settle_down(url: str) -> None:
    if url.startswith("postgresql"):
        settle_down(url)


def _no_ops(
    runs: int,
    title: str,
    start: StartServer,
    programs: Mapping[str, Program],
    *,
    few: Sequence[str],
    targets: Sequence[AtLeast],
) -> Trial:
    missing = absent(programs)
    contenders: dict[str, MeasureThere] = {TOKIMORI: partial(tokimori, runs)}
    for name, program in programs.items():
        if name not in missing:
            contenders[name] = partial(peer, program, min(runs, FEW) if name in few else runs)
    return Trial(
        title=_title(runs, title, FEW),
        quantities=RATE_ALONE,
        targets=[target for target in targets if target.than in contenders],
        measure=each_on_its_own(start, contenders),
        most_rounds=SIZES.get(runs, 1),
        absent=missing,
    )


def _title(runs: int, where: str, few: int) -> str:
    fewer = f" ({few:,} where each is committed alone)" if runs > few else ""
    return f"drain of {runs:,} no-op functions{fewer}, {where}"


def _on_postgres(runs: int) -> Trial:
    best = (postgres_drain.APSCHEDULER_3, postgres_drain.APSCHEDULER_4, postgres_drain.PROCRASTINATE, SAQ)
    targets = [AtLeast(RATE, name, 5) for name in best]
    targets += [AtLeast(RATE, name, 1.2) for name in (postgres_drain.PGQUEUER, PGQUEUERS)]
    title = "PostgreSQL, fsync and synchronous_commit on"
    return _no_ops(runs, title, postgres_server, POSTGRES, few=ONE_BY_ONE, targets=targets)


def _on_redis(runs: int) -> Trial:
    targets = [*(AtLeast(RATE, name, 2) for name in TWICE_AS_FAST), *(AtLeast(RATE, name, 1) for name in AS_FAST)]
    few = (*TWICE_AS_FAST, *AS_FAST)
    return _no_ops(runs, on_redis.FIELD.title, redis_server, REDIS, few=few, targets=targets)


def _on_sqlite(runs: int) -> Trial:
    huey = (on_sqlite.HUEY_PROCESSES, on_sqlite.HUEY_THREADS)
    few = min(runs, FEW_OF_HUEY)
    contenders = {
        TOKIMORI: partial(tokimori_on_sqlite, runs),
        on_sqlite.HUEY_PROCESSES: partial(on_sqlite.huey, few, "process", 2),
        on_sqlite.HUEY_THREADS: partial(on_sqlite.huey, few, "thread", 4),
        APSCHEDULER: partial(on_sqlite.apscheduler, min(runs, FEW)),
    }
    return Trial(
        title=_title(runs, "SQLite, synchronous=FULL", FEW_OF_HUEY),
        quantities=RATE_ALONE,
        targets=[AtLeast(RATE, name, 4) for name in huey],
        measure=in_turn(contenders),
        most_rounds=SIZES.get(runs, 1),
    )


# CPU


def burnt(runs: int, seconds: float, place: Place, folder: Path) -> Figures:
    """Functions that burn CPU, on PostgreSQL."""
    asyncio.run(function_node.ask(place.url, function_node.BURN, runs, {"seconds": seconds}))
    return {RATE: runs / asyncio.run(function_node.drain(place.url, folder, runs, AS_USUAL)).seconds}


def pool(runs: int, seconds: float, _place: Place, _folder: Path) -> Figures:
    """A pool with a process for each core, which keeps nothing."""
    with multiprocessing.get_context("spawn").Pool(function_node.PROCESSES) as processes:
        processes.map(burn_cpu, repeat(0.0, function_node.PROCESSES), chunksize=1)
        began = time.perf_counter()
        for _ in processes.imap_unordered(burn_cpu, repeat(seconds, runs)):
            pass
        return {RATE: runs / (time.perf_counter() - began)}


def _cpu(runs: int, seconds: float) -> Trial:
    return Trial(
        title=f"{runs:,} functions that burn {seconds * 1000:g} ms of CPU, PostgreSQL",
        quantities=RATE_ALONE,
        targets=[AtLeast(RATE, MULTIPROCESSING, 0.9)],
        measure=each_on_its_own(
            postgres_server,
            {TOKIMORI: partial(burnt, runs, seconds), MULTIPROCESSING: partial(pool, runs, seconds)},
        ),
    )


# Latency, and adding


def latency(triggers: int, place: Place, folder: Path) -> Figures:
    """From the call of `trigger` to the start that the worker process tells, on a node that has nothing else to do."""
    command = [sys.executable, "-m", "tokimori", "worker", function_node.APP, "--store", place.url]
    with running([*command, "--include", str(function_node.ROOT)], folder) as process:
        wait_for_line(process, "runs jobs")
        late = sorted(asyncio.run(_trigger(place.url, triggers)))
    return {MIDDLE: late[len(late) // 2], LATE: late[len(late) * 99 // 100]}


async def _trigger(url: str, triggers: int) -> list[float]:
    chance = random.Random(1)
    async with opened_store(url) as store:
        clock = SystemClock()
        service = service_on(store, clock, os.urandom)
        late = []
        for _ in range(triggers):
            await asyncio.sleep(chance.uniform(*APART))
            asked = clock.now()
            run = await service.jobs.trigger("nothing")
            ended = await service.runs.wait(run.id)
            assert ended.started is not None
            late.append((ended.started - asked) / MILLISECOND)
    return late


def _latency(triggers: int) -> Trial:
    return Trial(
        title=f"{triggers} functions asked for one by one, PostgreSQL, `tokimori worker` idle: start minus call",
        quantities=[Quantity(MIDDLE, "ms"), Quantity(LATE, "ms")],
        targets=[AtMost(MIDDLE, 10), AtMost(LATE, 50)],
        measure=each_on_its_own(postgres_server, {TOKIMORI: partial(latency, triggers)}),
        most_rounds=1,
    )


def added(runs: int, place: Place, _: Path) -> Figures:
    """Asked for by one program, a thousand by each call of `trigger_many`."""
    return {ADDED: asyncio.run(function_node.ask(place.url, function_node.NOTHING, runs)) / runs * 1e6}


def _added(runs: int) -> Trial:
    return Trial(
        title=f"{runs:,} runs of a function asked for, PostgreSQL, fsync and synchronous_commit on",
        quantities=[Quantity(ADDED, "µs/run")],
        targets=[AtMost(ADDED, LONGEST_ADD)],
        measure=each_on_its_own(postgres_server, {TOKIMORI: partial(added, runs)}),
    )


def trials(quick: bool) -> Sequence[Trial]:
    """No-ops on each store, CPU, latency, adding."""
    sizes = [1_000] if quick else SIZES
    kinds: tuple[Callable[[int], Trial], ...] = (_on_postgres, _on_sqlite, _on_redis)
    small = 5 if quick else 1
    return [
        *(kind(runs) for kind in kinds for runs in sizes),
        _cpu(10_000 // small, 0.001),
        _cpu(1_000 // small, 0.01),
        _latency(TRIGGERS // small),
        _added(20_000 // small),
    ]


WORKLOAD = Workload("W14", "Python functions", trials)
