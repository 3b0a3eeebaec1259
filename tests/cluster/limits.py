"""Jobs with every kind of limit, four nodes that are killed and frozen by chance, and the sweep over what they did."""

import asyncio
import os
import random
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from tests.cluster.accounts import EVERY_SECOND, POLL, all_runs, live_runs
from tests.cluster.fleet import SHELL, Fleet, writes_lines
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.model.dependents import Parent
from tokimori.model.ids import JobId, NodeId, RunId
from tokimori.model.job import Definition
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Attempt, Run
from tokimori.model.semaphores import wanted
from tokimori.model.target import Command, Noop
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.service.schema import StoreOnDemand
from tokimori.service.semaphores import SemaphoreDetails
from tokimori.service.service import Service, service_on
from tokimori.stores.open import open_store

NODES = 4
FROZEN = 10.0
"""Seconds: beyond the lease."""
KEEPER_ENDS = SECOND
"""So long after its node was killed a command is gone, on a busy machine."""
REST = 3.0
"""Seconds between two troubles."""
WAREHOUSE = 3
LIMITS = {"table": 1, "warehouse": WAREHOUSE, "api": 1}
KEYS = ("north", "south", "west")
PATIENCE = 120
"""Seconds within which everything that is left has run."""


def definitions(fleet: Fleet) -> Mapping[str, Definition]:
    """Jobs that come a little more slowly than their limits let them run."""

    def job(nap: float, **terms: object) -> Definition:
        shell = writes_lines(fleet.lines, f"sleep {nap}")
        plain = Definition(
            target=Command(shell=shell, shell_path=SHELL, cwd=str(fleet.folder)), max_running=0, misfire=Misfire.ALL
        )
        return replace(plain, **terms)

    timed = {"schedule": EVERY_SECOND}
    return {
        "two": job(1.2, **timed, max_running=2, on_overlap=Overlap.QUEUE),
        "table-a": job(0.3, **timed, semaphores=("table",)),
        "table-b": job(0.2, **timed, semaphores=("table",)),
        "heavy": job(0.4, **timed, semaphores=("warehouse:2", "api")),
        "light": job(0.7, **timed, semaphores=("warehouse",)),
        "keyed": job(0.4),
        "child": replace(job(0), target=Noop(), parents=(Parent(job="two"),)),
    }


class Interval(NamedTuple):
    """When an attempt's process lived, and how many units it held."""

    began: Moment
    ended: Moment
    weight: int = 1


def most_held(intervals: Iterable[Interval]) -> int:
    """The most units that were held at one moment: what ends at a moment frees before what begins at it takes."""
    steps = sorted(
        step for each in intervals for step in ((each.began, each.weight), (each.ended, -each.weight)) if each.weight
    )
    return max(accumulate(units for _, units in steps), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a fleet left behind."""

    definitions: Mapping[str, Definition]
    runs: Mapping[str, Sequence[Run]]
    attempts: Mapping[RunId, Sequence[Attempt]]
    processes: Mapping[RunId, Sequence[Interval]]
    semaphores: Sequence[SemaphoreDetails]
    codes: Sequence[int]


def suffer(fleet: Fleet, seconds: float, seed: int) -> Left:
    """Let four nodes work, of which one is killed or frozen every few seconds, and look at what is left."""
    jobs = definitions(fleet)
    asyncio.run(_prepare(fleet, jobs))
    chance = random.Random(seed)
    for _ in range(NODES):
        fleet.start_node()
    fleet.wait_until_up()
    end = time.monotonic() + seconds
    frozen: list[tuple[float, subprocess.Popen[bytes]]] = []
    asked = 0
    while time.monotonic() < end:
        asked += asyncio.run(_ask(fleet, asked))
        thawed = [each for each in frozen if each[0] <= time.monotonic()]
        for each in thawed:
            fleet.thaw(each[1])
            frozen.remove(each)
        _trouble(fleet, chance, frozen)
        time.sleep(REST)
    for _, node in frozen:
        fleet.thaw(node)
    asyncio.run(_drain(fleet, jobs))
    codes = fleet.stop()
    return asyncio.run(_read(fleet, jobs, codes))


def _trouble(fleet: Fleet, chance: random.Random, frozen: list[tuple[float, subprocess.Popen[bytes]]]) -> None:
    """One node at most is frozen: the others must be enough to tell."""
    awake = [node for node in fleet.nodes if node.poll() is None and node not in [each for _, each in frozen]]
    victim = chance.choice(awake)
    if not frozen and chance.random() < 0.5:
        fleet.freeze(victim)
        frozen.append((time.monotonic() + FROZEN, victim))
    else:
        fleet.kill(victim)
        fleet.start_node()


@asynccontextmanager
async def _service(fleet: Fleet) -> AsyncIterator[tuple[Store, Service]]:
    """The stores of the fleet, open."""
    store = open_store(fleet.url, SystemClock())
    apart = None if fleet.semaphores is None else StoreOnDemand(open_store(fleet.semaphores, SystemClock()))
    await store.open()
    try:
        yield store, service_on(store, SystemClock(), os.urandom, semaphore_store=apart)
    finally:
        if apart is not None:
            await apart.close()
        await store.close()


async def _prepare(fleet: Fleet, jobs: Mapping[str, Definition]) -> None:
    async with _service(fleet) as (store, service):
        await store.migrate()
        for name, limit in LIMITS.items():
            await service.semaphores.set(name, limit)
        await service.jobs.import_all(list(jobs.items()))


async def _ask(fleet: Fleet, first: int) -> int:
    """A few more runs of each key; how many."""
    async with _service(fleet) as (_, service):
        for number in range(first, first + 2 * len(KEYS)):
            await service.jobs.trigger("keyed", key=str(number), concurrency_key=KEYS[number % len(KEYS)])
        return 2 * len(KEYS)


async def _drain(fleet: Fleet, jobs: Mapping[str, Definition]) -> None:
    async with _service(fleet) as (store, service):
        for name, definition in jobs.items():
            if definition.schedule is not None:
                await service.jobs.update(name, schedule=None)
        for _ in range(round(PATIENCE / POLL)):
            if not await live_runs(store):
                break
            await asyncio.sleep(POLL)


async def _read(fleet: Fleet, jobs: Mapping[str, Definition], codes: Sequence[int]) -> Left:
    async with _service(fleet) as (store, service):
        runs = {name: await all_runs(store, JobId(name)) for name in jobs}
        everything = [run for each in runs.values() for run in each]
        attempts = {run.id: await store.attempts(run.id) for run in everything if run.attempt > 1}
        pids = {node.id: node.pid for node in await store.list_nodes()}
        semaphores = await service.semaphores.list()
        return Left(
            definitions=jobs,
            runs=runs,
            attempts=attempts,
            processes=_processes(fleet, everything, attempts, pids),
            semaphores=semaphores,
            codes=codes,
        )


def _processes(
    fleet: Fleet, runs: Iterable[Run], attempts: Mapping[RunId, Sequence[Attempt]], pids: Mapping[NodeId, int]
) -> Mapping[RunId, Sequence[Interval]]:
    """By what the commands wrote; one that was killed lived until its keeper saw that its node was gone."""
    given_up = {
        (each.run_id, each.number): _end_of(each.ended, fleet.silences.get(pids.get(each.node_id or NodeId(""), 0), ()))
        for rows in attempts.values()
        for each in rows
    }
    last = {run.id: run.ended for run in runs}
    found: dict[RunId, list[Interval]] = {}
    for line in fleet.written():
        ended = line.ended or given_up.get((line.run_id, line.attempt)) or last.get(line.run_id)
        found.setdefault(line.run_id, []).append(Interval(line.began, ended or line.began))
    return found


def _end_of(given_up: Moment | None, silences: Sequence[Moment]) -> Moment | None:
    """A command of a frozen node ends by itself, and says so."""
    before = [moment for moment in silences if given_up is not None and moment <= given_up]
    return Moment(before[-1] + KEEPER_ENDS) if before else given_up


def broken_limits(left: Left) -> list[str]:
    """The limits that were exceeded at some moment, a sentence each."""
    held: dict[tuple[str, int], list[Interval]] = {}
    for name, definition in left.definitions.items():
        for run in left.runs[name]:
            for process in left.processes.get(run.id, ()):
                if definition.max_running:
                    held.setdefault((f"job {name}", definition.max_running), []).append(process)
                if run.concurrency_key is not None:
                    held.setdefault((f"key {run.concurrency_key}", 1), []).append(process)
                for semaphore, weight in wanted(definition.semaphores):
                    units = process._replace(weight=weight)
                    held.setdefault((f"semaphore {semaphore}", LIMITS[semaphore]), []).append(units)
    return [
        f"{most} units of {name} were held, of {limit}"
        for (name, limit), intervals in held.items()
        if (most := most_held(intervals)) > limit
    ]


def wrong_children(left: Left) -> list[str]:
    """Parents that succeeded without exactly one child, and children that began before their parent had ended."""
    parents = {run.id: run for run in left.runs["two"] if run.state is RunState.SUCCEEDED}
    born: dict[RunId, list[Run]] = {}
    for run in left.runs["child"]:
        born.setdefault(run.parent_id or run.id, []).append(run)
    wrong = [f"run {each} has {len(born.get(each, []))} children" for each in parents if len(born.get(each, [])) != 1]
    wrong += [f"run {each} is no parent, and has children" for each in born.keys() - parents.keys()]
    early = [run.id for each, runs in born.items() for run in runs if _early(run, parents.get(each))]
    return wrong + [f"child {each} began before its parent had ended" for each in early]


def _early(child: Run, parent: Run | None) -> bool:
    return None not in (parent, child.started) and (child.started or 0) < (parent.ended or 0 if parent else 0)


def overtaken(left: Left, jobs: Sequence[str], patience: float) -> list[str]:
    """Runs that had waited for so many seconds when one behind them in line was begun. Lost ones went back in line."""
    runs = [run for name in jobs for run in left.runs[name] if run.attempt == 1 and run.started is not None]
    runs.sort(key=lambda run: (run.rank, run.id))
    found, first = [], Moment(2**62)
    for run in reversed(runs):
        began = run.started or Moment(0)
        if first < began and run.created + patience * SECOND < first:
            found.append(f"run {run.id}, made {(began - run.created) / SECOND:.1f} s before it began, was overtaken")
        first = min(first, began)
    return found
