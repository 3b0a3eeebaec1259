"""Three trials of Tokimori and its peers, each on a server of its own: a drain, the lateness of 1,000, idle cost."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Round, Trial
from benchmarks.in_process_node import CONCURRENCY, add_jobs, drain, fill, opened_store, succeeded
from benchmarks.postgres_peers.program import Drained
from benchmarks.programs import ROOT, Program, absent
from benchmarks.serving import running, serving, wait_for_line
from benchmarks.store_servers import Place, StartServer, each_on_its_own
from benchmarks.workloads.idle import SETTLING, cpu_seconds
from tokimori.clock import MILLISECOND, SECOND, Moment, SystemClock, format_moment
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.service.service import service_on

Fill = Callable[[str, Moment], Coroutine[None, None, None]]
"""Stores what becomes due at the moment."""

RATE, OWN_CPU, SERVER_CPU, BOTH = "drained", "own CPU", "server CPU", "CPU of both"
MIDDLE, LATE, LAST = "p50", "p99", "last"
JOBS = 1_000
LEAD = 12
"""Seconds from the first preparation to the moment."""
FEW = 1_000
"""Peers that write for each run alone get so many: their rate does not rise with more."""
AT_ONCE = 250
"""So many are asked for at the same time."""
FAR, FAR_JOBS = 86_400, 5
"""Seconds to what an idle worker waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A server, and who runs on it. `python`: the peers that Tokimori has to be ahead of, who write one by one.

    `idlers`: those of which only the idle cost is measured.
    """

    title: str
    start: StartServer
    python: Mapping[str, Program]
    others: Mapping[str, Program]
    idlers: Mapping[str, Program] = field(default_factory=dict)

    @property
    def programs(self) -> Mapping[str, Program]:
        """All peers that are installed."""
        missing = self.absent
        return {name: program for name, program in {**self.python, **self.others}.items() if name not in missing}

    @property
    def absent(self) -> Mapping[str, str]:
        """The others, and why."""
        return absent({**self.python, **self.others})

    def ahead(self, quantity: str) -> list[AtLeast]:
        """Of every Python peer."""
        return [AtLeast(quantity, name, 1) for name in self.python]

    def trials(self, quick: bool) -> Sequence[Trial]:
        """The three."""
        return [self._drain(2_000 if quick else 10_000), *self.timely(quick)]

    def timely(self, quick: bool) -> Sequence[Trial]:
        """Lateness and idle cost."""
        return [self._lateness(), self._idle(10.0 if quick else 60.0)]

    def _drain(self, runs: int) -> Trial:
        peers = {
            name: partial(drained_by_peer, program, FEW if name in self.python else runs)
            for name, program in self.programs.items()
        }
        return Trial(
            title=f"drain of {runs:,} due no-ops, {self.title}",
            quantities=[
                Quantity(RATE, "runs/s", more=True),
                Quantity(OWN_CPU, "µs/run"),
                Quantity(SERVER_CPU, "µs/run"),
            ],
            targets=self.ahead(RATE),
            measure=each_on_its_own(self.start, {TOKIMORI: partial(drained_by_tokimori, runs), **peers}),
            absent=self.absent,
        )

    def _lateness(self) -> Trial:
        return self._late("jobs", scheduled)

    def delayed(self) -> Trial:
        """Lateness of runs that exist before they are due, as those of a queue do."""
        return self._late("runs, asked for before, all", asked_for)

    def _late(self, what: str, fill: Fill) -> Trial:
        peers = {name: partial(lateness_of_peer, program) for name, program in self.programs.items()}
        return Trial(
            title=f"{JOBS:,} {what} due in one second, {self.title}: start minus due",
            quantities=[Quantity(name, "ms") for name in (MIDDLE, LATE, LAST)],
            targets=self.ahead(LATE),
            measure=each_on_its_own(self.start, {TOKIMORI: partial(lateness_of_tokimori, fill), **peers}),
            absent=self.absent,
        )

    def _idle(self, seconds: float) -> Trial:
        return Trial(
            title=f"idle for {seconds:g} s with {FAR_JOBS} far-away jobs, {self.title}; the node with its HTTP door",
            quantities=[Quantity(name, "CPU s/min") for name in (BOTH, OWN_CPU, SERVER_CPU)],
            targets=[AtLeast(BOTH, name, 1) for name in (*self.python, *self.idlers)],
            measure=lambda _: idle(self.start, {**self.programs, **self.idlers}, seconds),
            most_rounds=2,
            absent=self.absent,
        )


def drained_by_tokimori(runs: int, place: Place, folder: Path) -> Figures:
    """Claims in batches, keeps every run with its start and end."""
    asyncio.run(fill(place.url, Definition(target=Noop()), runs))
    return _rate(place, runs, lambda: asyncio.run(drain(place.url, folder, runs, CONCURRENCY)))


def drained_by_peer(program: Program, runs: int, place: Place, _: Path) -> Figures:
    """Its own API stores the runs, its own worker ends them; its docstring says with which settings, and why these."""
    program.call("fill", place.url, runs)
    return _rate(place, runs, lambda: program.drained(place.url, runs))


def _rate(place: Place, runs: int, drain: Callable[[], Drained]) -> Figures:
    """Beside the rate, what a run costs; the server's part includes what happens just before and after the drain."""
    before = cpu_seconds(place.pid)
    drained = drain()
    server = cpu_seconds(place.pid) - before
    return {RATE: runs / drained.seconds, OWN_CPU: drained.cpu / runs * 1e6, SERVER_CPU: server / runs * 1e6}


def lateness_of_tokimori(fill: Fill, place: Place, folder: Path) -> Figures:
    """`tokimori serve` starts and settles them. The ledger says when."""
    at = Moment(_moment() * SECOND)
    asyncio.run(fill(place.url, at))
    with serving(folder, "--no-http", store=place.url):
        left = at / SECOND - time.time()
        assert left > 0, "it took too long to get ready"
        time.sleep(left + 2)
        return _quantiles(asyncio.run(_late(place.url)))


async def scheduled(url: str, at: Moment) -> None:
    """Each is a job with a schedule: at the moment they are decided, written as runs, and claimed."""
    await _add(url, JOBS, Definition(target=Noop(), schedule="at " + format_moment(at)))


async def asked_for(url: str, at: Moment) -> None:
    """Each is a run of one job: at the moment they are claimed."""
    async with opened_store(url) as store:
        service = service_on(store, SystemClock(), os.urandom)
        await service.jobs.add("asked-for", noop=True)
        for _ in range(0, JOBS, AT_ONCE):
            await asyncio.gather(*(service.jobs.trigger("asked-for", at=at) for _ in range(AT_ONCE)))


async def _add(url: str, jobs: int, definition: Definition) -> None:
    async with opened_store(url) as store:
        await add_jobs(store, [(f"job-{number}", definition) for number in range(jobs)])


async def _late(url: str) -> list[float]:
    async with opened_store(url) as store:
        while len(ended := await succeeded(store, JOBS)) < JOBS:  # noqa: ASYNC110  the node is watched from outside
            await asyncio.sleep(0.5)
    return [(run.started - run.due) / MILLISECOND for run in ended if run.started is not None]


def lateness_of_peer(program: Program, place: Place, _: Path) -> Figures:
    """Its worker notes when it calls each."""
    return _quantiles([float(late) for late in program.call("late", place.url, JOBS, _moment()).split()])


def _moment() -> int:
    """A full second that is far enough away to get ready for it."""
    return int(time.time()) + LEAD


def _quantiles(late: Sequence[float]) -> Figures:
    """Of milliseconds."""
    late = sorted(late)
    return {MIDDLE: late[len(late) // 2], LATE: late[len(late) * 99 // 100], LAST: late[-1]}


def idle(start: StartServer, programs: Mapping[str, Program], seconds: float) -> Round:
    """All of them idle at the same time, so that what disturbs the machine disturbs them all."""
    far = int(time.time()) + FAR
    with ExitStack() as stack:
        places = {name: stack.enter_context(start()) for name in (TOKIMORI, *programs)}
        workers = {TOKIMORI: _idle_node(stack, places[TOKIMORI].url)}
        for name, program in programs.items():
            worker = stack.enter_context(running(program.command("idle", places[name].url, FAR_JOBS, far), ROOT))
            wait_for_line(worker, "up")
            workers[name] = worker.pid
        time.sleep(SETTLING)
        before = {name: (cpu_seconds(pid), cpu_seconds(places[name].pid)) for name, pid in workers.items()}
        time.sleep(seconds)
        after = {name: (cpu_seconds(pid), cpu_seconds(places[name].pid)) for name, pid in workers.items()}
    return {name: _a_minute(before[name], after[name], seconds) for name in workers}


def _idle_node(stack: ExitStack, url: str) -> int:
    asyncio.run(_add(url, FAR_JOBS, Definition(target=Noop(), schedule="0 0 29 2 *")))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tokimori-bench-")))
    return stack.enter_context(serving(folder, "--port", "0", store=url)).pid


def _a_minute(before: tuple[float, float], after: tuple[float, float], seconds: float) -> Figures:
    own, server = ((late - early) * 60 / seconds for early, late in zip(before, after, strict=True))
    return {BOTH: own + server, OWN_CPU: own, SERVER_CPU: server}
