"""An executor of commands at work, and what tests want to know of the processes that it runs."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tokimori.clock import Moment, SystemClock, parse_moment
from tokimori.executors.command import CommandExecutor
from tokimori.executors.keeper.kernel import everything, see
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.run import Output
from tokimori.model.target import Command
from tokimori.ports.executor import AttemptTask, Ended, Grew, Report, Started

NOMINAL = parse_moment("2030-01-01T00:00:00Z")
DUE = Moment(NOMINAL + 1_500_000)
PATIENCE = 20.0
"""Seconds after which a test gives up; far more than anything here takes."""

BOTH_WAYS = ("pidfd", "waiter thread")
"""How a keeper may notice exits; the second is for kernels without the first."""

_R = TypeVar("_R", Started, Grew, Ended)


class SetClock(SystemClock):
    """This machine's clocks, the wall clock set forward by `offset` microseconds."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self) -> Moment:
        """The wall clock."""
        return Moment(super().now() + self.offset)


class Workshop:
    """An executor on a folder of its own, and everything that it has reported."""

    def __init__(self, folder: Path, *, output_limit: int = 10 * 2**20, pidfd: bool = True) -> None:
        self.clock = SetClock()
        self.folder = folder
        self.pidfd = pidfd
        self.runs = folder / "runs"
        self.state = folder / "state"
        self.executor = CommandExecutor(
            self.clock,
            runs_dir=self.runs,
            state_dir=self.state,
            output_limit=output_limit,
            environ={"PATH": "/usr/bin:/bin", "TOKIMORI_STORE": "postgresql://secret"},
            pidfd=pidfd,
        )
        self.reports: list[Report] = []
        self._news = asyncio.Event()

    async def open(self) -> None:
        """Ready to run."""
        await self.executor.open(self.receive)

    def receive(self, report: Report) -> None:
        """What the executor tells."""
        self.reports.append(report)
        self._news.set()

    def start(self, run: str, command: Command, **terms: object) -> None:
        """Begin an attempt."""
        self.executor.start([a_task(run, command, **terms)])

    async def run(self, command: Command, **terms: object) -> Ended:
        """Begin an attempt and see it to its end."""
        run = f"run-{len(self.reports)}"
        self.start(run, command, **terms)
        return await self.next(Ended, run)

    async def next(self, kind: type[_R], run: str) -> _R:
        """The first report of the kind on this run, once it is there."""
        async with asyncio.timeout(PATIENCE):
            while not (found := self.all(kind, run)):
                self._news.clear()
                await self._news.wait()
        return found[0]

    def all(self, kind: type[_R], run: str) -> list[_R]:
        """All reports of the kind on this run."""
        return [report for report in self.reports if isinstance(report, kind) and report.run_id == run]

    def log(self, run: str) -> Path:
        """The file with the output of the run's first attempt."""
        return self.runs / run / "1.log"


def a_task(run: str, command: Command, **terms: object) -> AttemptTask:
    """A first attempt, without a time-out."""
    return AttemptTask(
        **{
            "run_id": RunId(run),
            "token": Token(7),
            "attempt": 1,
            "job_id": JobId("job"),
            "target": command,
            "nominal": NOMINAL,
            "due": DUE,
            "timeout": None,
            "timeout_grace": 5.0,
            "kill_on_lost_lease": False,
            **terms,
        }  # type: ignore[arg-type]
    )


def shell(text: str, **terms: object) -> Command:
    """A command of /bin/sh."""
    return Command(shell=text, **terms)  # type: ignore[arg-type]


def written(ended: Ended) -> bytes:
    """All that the attempt wrote, where that is little."""
    assert ended.output is None or ended.output.tail == b""
    return b"" if ended.output is None else ended.output.head


def size_of(output: Output | None) -> int:
    """How many bytes were written."""
    return 0 if output is None else output.size


def keeper_of(pid: int) -> int:
    """The keeper of a running command: it leads the session."""
    keeper = os.getsid(pid)
    assert told(keeper, "comm") == "tokimori-keeper\n"
    return keeper


def alive(pid: int) -> bool:
    """Whether the process runs."""
    return see(pid) is not None


def exists(pid: int) -> bool:
    """Whether the process runs, or is a zombie that nobody has collected."""
    return Path(f"/proc/{pid}").exists()


def descriptors(pid: int) -> int:
    """How many descriptors the process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def waits_of(pid: int) -> int:
    """How often the process has waited for something so far."""
    return int(told(pid, "status").split("\nvoluntary_ctxt_switches:")[1].split()[0])


def children_of(pid: int) -> list[int]:
    """The children of a process of one thread, zombies included."""
    return [int(child) for child in told(pid, f"task/{pid}/children").split()]


def in_session(number: int) -> list[int]:
    """Who lives in a session."""
    return [seen.pid for seen in everything() if seen.session == number]


def told(pid: int, file: str) -> str:
    """What /proc says of a process in one of its files."""
    return Path(f"/proc/{pid}/{file}").read_text()


async def until(holds: Callable[[], bool], within: float = PATIENCE) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - what processes do makes no event here
            await asyncio.sleep(0.02)


async def pids_in(file: Path, count: int = 1) -> list[int]:
    """The pids that commands write to a file, one a line."""
    await until(lambda: len(_lines(file)) >= count)
    return [int(line) for line in _lines(file)]


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@contextmanager
def file_descriptors(more: int) -> Iterator[None]:
    """This process may open only so many more; none at all where it is 0, whatever it closes meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + more if more else 0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
