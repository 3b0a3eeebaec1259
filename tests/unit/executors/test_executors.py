"""Each task goes to the executor of its kind of target."""

from collections.abc import Callable, Sequence

import pytest

from tests.unit.examples import a_task
from tokimori.clock import Moment
from tokimori.errors import Bug
from tokimori.executors.executors import Executors
from tokimori.model.email import Email
from tokimori.model.ids import RunId, Token
from tokimori.model.target import Build, Command, Function, Http, Noop, Target
from tokimori.ports.executor import AttemptTask, Report, StopReason


class Recorder:
    """An executor that only remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor`."""
        self.asked.append(("open", report))

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor`."""
        self.asked.append(("start", [task.run_id for task in tasks]))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor`."""
        self.asked.append(("stop", run_id, token, reason, grace))

    def renew(self, sent: float) -> None:
        """See `Executor`."""
        self.asked.append(("renew", sent))

    def forget(self, before: Moment) -> None:
        """See `Executor`."""
        self.asked.append(("forget", before))

    async def close(self) -> None:
        """See `Executor`."""
        self.asked.append("close")


def task(run: str, target: Target) -> AttemptTask:
    """A task."""
    return a_task(target, run_id=RunId(run))


def ignore(report: Report) -> None:
    """Nobody listens."""


async def test_tasks_go_where_their_target_is_run() -> None:
    """Builds, commands, functions, requests and no-ops are told apart; everything else is told to all."""
    build, command, function, http, noop = Recorder(), Recorder(), Recorder(), Recorder(), Recorder()
    executors = Executors(
        {Noop: noop, Build: build, Command: command, Function: function, Http: http, Email: Recorder()}
    )
    await executors.open(ignore)
    executors.start([task("a", Noop()), task("b", Command(argv=("true",))), task("c", Noop())])
    executors.start([task("d", Function(name="handler"))])
    executors.start([task("e", Http(url="http://a.example/"))])
    executors.start([task("f", Build(task="t", digest="0" * 64))])
    executors.stop(RunId("a"), Token(1), StopReason.CANCEL, grace=2.0)
    executors.renew(3.0)
    await executors.close()
    rest = [("stop", "a", 1, StopReason.CANCEL, 2.0), ("renew", 3.0), "close"]
    assert noop.asked == [("open", ignore), ("start", ["a", "c"]), *rest]
    assert command.asked == [("open", ignore), ("start", ["b"]), *rest]
    assert function.asked == [("open", ignore), ("start", ["d"]), *rest]
    assert build.asked == [("open", ignore), ("start", ["f"]), *rest]
    assert http.asked == [("open", ignore), ("start", ["e"]), *rest]


def test_a_kind_that_nothing_runs_is_found_at_once() -> None:
    """Where a kind of target has no executor no node starts: its runs would be claimed, and never end."""
    with pytest.raises(Bug, match="the kinds Noop"):
        Executors({Build: Recorder(), Command: Recorder(), Email: Recorder(), Function: Recorder(), Http: Recorder()})
