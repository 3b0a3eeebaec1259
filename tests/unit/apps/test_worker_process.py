"""A worker process on its end of the line: what it is told, and what it says."""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from tests.unit.apps.orders import begin
from tokimori.apps.app import App
from tokimori.apps.task import current_task
from tokimori.apps.worker_process import WorkerProcess, WorkerStart
from tokimori.executors.functions import wire
from tokimori.executors.keeper.kernel import boottime


class Line(asyncio.WriteTransport):
    """The line to the node: what is written is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[wire.FromWorker] = []
        self._frames: wire.Frames[wire.FromWorker] = wire.Frames(wire.FromWorker)

    def write(self, data: object) -> None:
        """Keep it."""
        self.said += self._frames.feed(cast("bytes", data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """A process wants to know of each byte that waits."""
        assert high == 0


def connected(app: App, tmp_path: Path, concurrency: int = 1) -> tuple[WorkerProcess, Line]:
    """A worker process of the app, which has said hello."""
    line = Line()
    told = WorkerStart(address="", number=1, app="a", concurrency=concurrency, runs_dir=str(tmp_path))
    process = WorkerProcess(told, app, lost=lambda: None)
    process.connection_made(line)
    return process, line


async def test_what_is_to_end_before_it_begins_has_ended(tmp_path: Path) -> None:
    """A coroutine that is cancelled before its first step tells its end: the node would kill the process for it."""
    app, begun = App("a"), list[int]()

    @app.handler("waits")
    async def waits() -> None:
        begun.append(1)

    process, line = connected(app, tmp_path)
    process.data_received(wire.frame([begin("waits"), wire.End(number=1, why="it was cancelled")]))
    for _ in range(5):
        await asyncio.sleep(0)
    ended = line.said[-1]
    assert isinstance(ended, wire.FunctionEnded)
    assert (ended.end, ended.text, begun) == (wire.FAILED, "it was interrupted", [])


async def test_a_coroutine_that_holds_the_loop_keeps_no_function_from_beginning(tmp_path: Path) -> None:
    """It may wait for what a function does that came with it, and the loop would not turn until then."""
    app, done, go_on = App("a"), threading.Event(), threading.Event()
    app.handler("blocks")(lambda: go_on.wait(10))
    app.handler("sets")(done.set)
    found = list[bool]()

    @app.handler("holds")
    async def holds() -> None:
        found.append(done.wait(10))

    process, line = connected(app, tmp_path, concurrency=4)
    names = ("blocks", "blocks", "sets", "holds")
    process.data_received(wire.frame([begin(name, number) for number, name in enumerate(names)]))
    await asyncio.sleep(0)
    assert found == [True]
    go_on.set()
    while sum(isinstance(each, wire.FunctionEnded) for each in line.said) < len(names):  # noqa: ASYNC110  threads end by themselves
        await asyncio.sleep(0)
    process.connection_lost(None)


async def test_what_came_before_a_module_is_imported_does_not_wait_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A route is imported on the loop when it is first needed, which may take long: here it waits for that function."""
    app, done = App("a"), threading.Event()
    shared = ModuleType("shared_by_both")
    monkeypatch.setitem(vars(shared), "done", done)
    monkeypatch.setitem(sys.modules, "shared_by_both", shared)
    (tmp_path / "imported_late.py").write_text(
        "import shared_by_both\nfound = shared_by_both.done.wait(10)\nwork = len\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app.handler("sets")(done.set)
    app.handler("other")(lambda: None)
    app.handler("late", "imported_late:work")
    process, line = connected(app, tmp_path, concurrency=3)
    process.data_received(wire.frame([begin("other", 1)]))
    await until(lambda: len(line.said) == 2 and bool(process._threads._idle))
    process.data_received(wire.frame([begin("sets", 2), begin("late", 3)]))
    assert sys.modules["imported_late"].found
    await until(lambda: len(line.said) == 4)
    process.connection_lost(None)


async def test_a_process_that_leaves_is_heard_to_the_end(tmp_path: Path) -> None:
    """It stays until its node has taken all: ends of runs that lie in its buffer when it exits would be lost."""
    process, _ = connected(App("a"), tmp_path)
    served = asyncio.ensure_future(process.served())
    process.pause_writing()
    process.data_received(wire.frame([wire.Leave()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not served.done()
    process.resume_writing()
    await served


def test_a_thread_that_outlives_the_loop_may_print(tmp_path: Path) -> None:
    """In a program of its own the node may go first: what a function does on its way out is not cut short by that."""
    app, begun, over, cleaned = App("a"), threading.Event(), threading.Event(), threading.Event()

    @app.handler("waits")
    def waits() -> None:
        try:
            begun.set()
            over.wait()
        finally:
            current_task().log("on its way out")
            cleaned.set()

    async def until_the_node_goes() -> None:
        process, _ = connected(app, tmp_path)
        process.data_received(wire.frame([begin("waits")]))
        begun.wait()
        process.connection_lost(None)

    asyncio.run(until_the_node_goes())
    over.set()
    assert cleaned.wait(10)


async def test_a_run_for_which_there_is_no_thread_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line to the node stays: all that runs in the process would be lost with it; a signal is lost alone, too."""
    app, go_on = App("a"), threading.Event()

    @app.handler("works")
    def works() -> None:
        current_task().on_signal("go", lambda _: go_on.set())
        go_on.wait(10)

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    process, line = connected(app, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        process.data_received(wire.frame([begin("works")]))
    await until(lambda: len(line.said) == 2)
    process.data_received(wire.frame([begin("works")]))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        process.data_received(wire.frame([wire.SendSignal(number=1, name="go")]))
    process.data_received(wire.frame([wire.SendSignal(number=1, name="go")]))
    await until(lambda: len(line.said) == 3)
    failed, ended = line.said[1:]
    assert isinstance(failed, wire.FunctionEnded)
    assert isinstance(ended, wire.FunctionEnded)
    assert (failed.end, failed.text) == (wire.SHORT, "RuntimeError: can't start new thread")
    assert ended.end == wire.SUCCEEDED


def of_two_kinds() -> tuple[App, list[str], threading.Event]:
    """An app with a function and a coroutine function, what was begun of it, and what the function waits for."""
    app, begun, go_on = App("a"), list[str](), threading.Event()

    @app.handler("function")
    def function() -> None:
        begun.append("function")
        go_on.wait(10)

    @app.handler("coroutine")
    async def coroutine() -> None:
        begun.append("coroutine")

    return app, begun, go_on


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_an_order_that_is_read_when_the_lease_is_over_begins_nothing(tmp_path: Path, kind: str) -> None:
    """It lay in the socket while the process and its node were frozen: the run may be another node's."""
    app, begun, go_on = of_two_kinds()
    go_on.set()
    process, line = connected(app, tmp_path)
    over = boottime()
    process.data_received(wire.frame([wire.Renew(over), begin(kind, 1), wire.Ping(), wire.Renew(over)]))
    await until(lambda: len(ends(line)) == 1)
    process.data_received(wire.frame([wire.Renew(over + 60), begin(kind, 2)]))
    await until(lambda: len(ends(line)) == 2)
    late, other = ends(line)
    assert (late.number, late.end, late.text) == (1, wire.LATE, "the lease of its node was over before it began")
    assert (other.number, other.end, begun) == (2, wire.SUCCEEDED, [kind])
    process.connection_lost(None)


async def test_what_waits_for_a_thread_begins_by_the_lease_of_then(tmp_path: Path) -> None:
    """It may have waited for longer than a lease: only if that was renewed it begins."""
    app, begun, go_on = of_two_kinds()
    process, line = connected(app, tmp_path)
    now = boottime()
    process.data_received(wire.frame([wire.Renew(now + 60), *(begin("function", n) for n in range(3))]))
    await until(lambda: begun == ["function"])
    process.data_received(wire.frame([wire.Renew(now)]))
    go_on.set()
    await until(lambda: len(ends(line)) == 3)
    assert [each.end for each in ends(line)] == [wire.SUCCEEDED, wire.LATE, wire.LATE]
    go_on.clear()
    process.data_received(wire.frame([wire.Renew(now), wire.Renew(now + 60), begin("function", 4)]))
    await until(lambda: begun == ["function"] * 2)
    go_on.set()
    process.connection_lost(None)


async def test_who_has_held_the_loop_for_longer_than_a_lease_costs_nobody_the_run(tmp_path: Path) -> None:
    """The node has renewed it meanwhile: that is read before others are judged."""
    app, begun, _ = of_two_kinds()
    process, line = connected(app, tmp_path)
    process.data_received(wire.frame([wire.Renew(boottime()), begin("coroutine")]))
    asyncio.get_running_loop().call_soon(process.data_received, wire.frame([wire.Renew(boottime() + 60)]))
    await until(lambda: len(ends(line)) == 1)
    assert ([each.end for each in ends(line)], begun) == ([wire.SUCCEEDED], ["coroutine"])
    process.connection_lost(None)


async def test_what_a_function_returned_goes_on_without_a_lease(tmp_path: Path) -> None:
    """It has begun: what it returned to be awaited is no other attempt, and is not handed back as if it had not."""
    app, begun = App("a"), list[int]()

    async def rest() -> None:
        begun.append(2)

    @app.handler("returns")
    def returns() -> object:
        begun.append(1)
        loop.call_soon_threadsafe(process.data_received, wire.frame([wire.Renew(boottime())]))
        return rest()

    loop = asyncio.get_running_loop()
    process, line = connected(app, tmp_path)
    process.data_received(wire.frame([begin("returns")]))
    await until(lambda: len(ends(line)) == 1)
    assert ([each.end for each in ends(line)], begun) == ([wire.SUCCEEDED], [1, 2])
    process.connection_lost(None)


def ends(line: Line) -> list[wire.FunctionEnded]:
    """The ends that were told."""
    return [each for each in line.said if isinstance(each, wire.FunctionEnded)]


async def until(holds: Callable[[], bool]) -> None:
    """Wait until this holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  it polls
            await asyncio.sleep(0)
