"""A build is fetched once, checked, and run by a command; one that was changed is not run."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.examples import NEW_YEAR, a_task
from tokimori.clock import Moment
from tokimori.errors import NotFound, StoreUnavailable, TokimoriError
from tokimori.executors import builds as module
from tokimori.executors.builds import BuildExecutor
from tokimori.executors.reported import short_of
from tokimori.model.build import Manifest, digest_of, frozen, pieces_of
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.outcome import Failed, Released
from tokimori.model.target import Build, Command
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason
from tokimori.testing.manual import VirtualClock

CONTENT = frozen({"__main__.py": b"print('hello')"}, Manifest(task="ping"))
DIGEST = digest_of(CONTENT)


class Commands:
    """An executor that remembers what it was given."""

    def __init__(self) -> None:
        self.tasks: list[AttemptTask] = []

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor`."""

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor`."""
        self.tasks += tasks

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor`."""

    def renew(self, sent: float) -> None:
        """See `Executor`."""

    def forget(self, before: Moment) -> None:
        """See `Executor`."""

    async def close(self) -> None:
        """See `Executor`."""


class Kept:
    """Builds of a store, which may fail or be slow; it remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.found: Sequence[str] = pieces_of(CONTENT)
        self.fault: TokimoriError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def pieces(self, task: str, digest: str) -> Sequence[str]:
        """See `Builds`."""
        self.asked.append(f"{task}@{digest}")
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return self.found


class Bench:
    """An executor of builds with all around it."""

    def __init__(self, folder: Path) -> None:
        self.commands, self.kept = Commands(), Kept()
        self.reports: list[Report] = []
        self.state, self.tasks_dir = folder / "state", folder / "tasks"
        self.executor = BuildExecutor(
            self.commands, self.kept, VirtualClock(NEW_YEAR), state_dir=self.state, tasks_dir=self.tasks_dir
        )

    async def run(self, *runs: str, digest: str = DIGEST, task: str = "ping") -> None:
        """Start these, and wait until each has begun or ended."""
        self.start(*runs, digest=digest, task=task)
        await asyncio.gather(*self.executor._work)

    def start(self, *runs: str, digest: str = DIGEST, task: str = "ping") -> None:
        target = Build(task=task, digest=digest)
        self.executor.start([a_task(target, run_id=RunId(run), job_id=JobId("ping"), timeout_grace=1) for run in runs])

    @property
    def outcomes(self) -> list[object]:
        return [report.outcome for report in self.reports if isinstance(report, Ended)]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(module, "PAUSE", 0)
    found = Bench(tmp_path)
    await found.executor.open(found.reports.append)
    yield found
    await found.executor.close()


async def test_a_build_is_fetched_once(bench: Bench) -> None:
    """It is kept under its digest, and each run gets a command that runs it; the node's Python is enough here."""
    await bench.run("a")
    await bench.run("b", "c")
    file = bench.state / "builds" / f"{DIGEST}.pyz"
    assert bench.kept.asked == [f"ping@{DIGEST}"]
    assert file.read_bytes() == CONTENT
    assert [task.target for task in bench.commands.tasks] == [Command(argv=(sys.executable, "-u", str(file)))] * 3
    assert (file.stat().st_mode & 0o777, bench.reports) == (0o600, [])


async def test_a_tampered_build_is_not_run(bench: Bench) -> None:
    """What the store gives is compared with the digest: the run fails and says so, and nothing is kept."""
    bench.kept.found = pieces_of(CONTENT.replace(b"hello", b"HELLO"))
    await bench.run("a")
    [outcome] = bench.outcomes
    assert isinstance(outcome, Failed)
    assert "is not what was built, and is not run" in str(outcome.error)
    assert bench.commands.tasks == []
    assert list((bench.state).rglob("*.pyz")) == []


async def test_a_file_that_was_changed_is_fetched_anew(bench: Bench) -> None:
    """What is kept here is compared before each run."""
    await bench.run("a")
    file = bench.state / "builds" / f"{DIGEST}.pyz"
    file.write_bytes(b"other")
    await bench.run("b")
    assert file.read_bytes() == CONTENT
    assert len(bench.kept.asked) == 2


async def test_a_store_that_is_away_costs_no_attempt(bench: Bench) -> None:
    """The run is handed back."""
    bench.kept.fault = StoreUnavailable("it is away")
    await bench.run("a")
    assert bench.outcomes == [Released("the store does not give its build: it is away")]


async def test_a_build_that_is_gone_is_a_failure(bench: Bench) -> None:
    """It does not come back by itself."""
    bench.kept.fault = NotFound("build: there is none")
    await bench.run("a")
    assert bench.outcomes == [Failed("build: there is none")]


async def test_a_fault_of_this_program_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run of which nothing is told would run for ever."""

    def broken(*_: object) -> object:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(asyncio, "to_thread", broken)
    await bench.run("a")
    assert bench.outcomes == [Failed("the node could not make its build ready: ZeroDivisionError; its log says more")]
    assert "ours" in caplog.text


async def test_a_machine_without_threads_costs_no_attempt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is handed back, and comes again."""

    def no_thread(*_: object) -> object:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", no_thread)
    await bench.run("a")
    assert bench.outcomes == [short_of("its build can't be made ready: can't start new thread")]


async def test_a_disk_that_is_full_costs_no_attempt(bench: Bench) -> None:
    """Where the build can't be kept, the run is handed back."""
    bench.state.mkdir()
    (bench.state / "builds").write_text("in the way")
    await bench.run("a")
    [outcome] = bench.outcomes
    assert isinstance(outcome, Released)
    assert ("can't be made ready here" in outcome.reason, outcome.short) == (True, False)


async def test_environments_that_take_long_leave_the_node_its_threads(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many being made as may be at once, what a node asks of a thread is answered."""
    most = module.MOST_AT_ONCE
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(most))
    all_being_made, made = threading.Barrier(most + 1), threading.Event()

    def python_of(_digest: str) -> str:
        all_being_made.wait(5)
        made.wait(5)
        return sys.executable

    monkeypatch.setattr(bench.executor._cache, "python_of", python_of)
    bench.start(*map(str, range(most)))
    await asyncio.wait_for(asyncio.to_thread(all_being_made.wait, 5), 5)
    made.set()
    await asyncio.gather(*bench.executor._work)
    assert len(bench.commands.tasks) == most


async def test_what_is_cancelled_while_it_is_fetched_never_begins(bench: Bench) -> None:
    """It is told once, and no command is started."""
    bench.kept.gate.clear()
    bench.start("a", "b")
    bench.executor.stop(RunId("a"), Token(1), StopReason.CANCEL)
    bench.kept.gate.set()
    await asyncio.gather(*bench.executor._work)
    assert [task.run_id for task in bench.commands.tasks] == ["b"]
    assert len(bench.outcomes) == 1


async def test_what_waits_when_the_node_closes_goes_back(bench: Bench) -> None:
    """Each run that was started is told of."""
    bench.kept.gate.clear()
    bench.start("a", "b")
    await bench.executor.close()
    assert [type(outcome) for outcome in bench.outcomes] == [Released, Released]


async def test_variables_come_from_the_workspace_of_the_node(bench: Bench) -> None:
    """They are read at each start: no build holds them."""
    await bench.run("a")
    (bench.tasks_dir / "ping").mkdir(parents=True)
    (bench.tasks_dir / "ping" / ".env").write_text("A=1\n")
    await bench.run("b")
    (bench.tasks_dir / "ping" / ".env").write_text("A=2\n")
    await bench.run("c")
    envs = [task.target.env for task in bench.commands.tasks if isinstance(task.target, Command)]
    assert envs == [{}, {"A": "1"}, {"A": "2"}]


@pytest.mark.parametrize("text", [b"no variable", b"\xff"])
async def test_variables_that_can_not_be_read_are_a_failure(bench: Bench, text: bytes) -> None:
    """A task does not run without what it was given."""
    (bench.tasks_dir / "ping").mkdir(parents=True)
    (bench.tasks_dir / "ping" / ".env").write_bytes(text)
    await bench.run("a")
    assert [type(outcome) for outcome in bench.outcomes] == [Failed]
    assert bench.commands.tasks == []


async def test_a_pipe_in_place_of_variables_holds_nothing(bench: Bench) -> None:
    """Nobody writes to it: the run fails at once, and other builds are fetched meanwhile."""
    (bench.tasks_dir / "ping").mkdir(parents=True)
    os.mkfifo(bench.tasks_dir / "ping" / ".env")
    await bench.run("a")
    (outcome,) = bench.outcomes
    assert isinstance(outcome, Failed)
    assert "is not a regular file" in outcome.error


async def test_a_name_leads_nowhere_else(bench: Bench) -> None:
    """A target that somebody has written into the store by hand reads no file outside of the workspace."""
    (bench.tasks_dir.parent / ".env").write_text("A=1\n")
    bench.tasks_dir.mkdir()
    await bench.run("a", task="..")
    assert [type(outcome) for outcome in bench.outcomes] == [Failed]


async def test_what_nothing_has_run_for_long_is_removed(bench: Bench) -> None:
    """What was run since stays."""
    await bench.run("a")
    bench.executor.forget(Moment(0))
    await asyncio.gather(*bench.executor._work)
    assert len(list(bench.state.rglob("*.pyz"))) == 1
    bench.executor.forget(Moment(2**62))
    await asyncio.gather(*bench.executor._work)
    assert list(bench.state.rglob("*.pyz")) == []


async def test_variables_that_have_gone_are_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A build keeps their names: once for each task, until others are missing; what only names the task is no loss."""
    content = frozen({"__main__.py": b"1"}, Manifest(task="ping", variables=("A", "KEY")))
    bench.kept.found, digest = pieces_of(content), digest_of(content)
    (bench.tasks_dir / "ping").mkdir(parents=True)
    (bench.tasks_dir / "ping" / ".env").write_text("A=1\n")
    for run in "ab":
        await bench.run(run, digest=digest)
    place = bench.tasks_dir / "ping" / ".env"
    assert caplog.messages == [f"task ping runs without KEY of its .env ({place})"]
    place.unlink()
    await bench.run("c", digest=digest)
    assert caplog.messages[1:] == [f"task ping runs without A, KEY of its .env ({place})"]
