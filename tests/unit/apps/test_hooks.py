"""Hooks of an app: what is called around its processes and its functions."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tokimori
from tests.unit.apps.orders import begin
from tokimori.apps.attempt import RunningAttempt
from tokimori.errors import InvalidInput
from tokimori.executors.functions import wire
from tokimori.testing import Rehearsal


def run(app: tokimori.App, tmp_path: Path, name: str) -> wire.FunctionEnded:
    """The end of an attempt at a function of the app."""
    running = RunningAttempt(begin(handler=f"shop.{name}"), app._act_of(f"shop.{name}"), tmp_path, lambda _: None)
    return running.run() or asyncio.run(running.run_async())


def shop(said: list[str]) -> tokimori.App:
    """An app with a function and a coroutine function, which fail if they are asked to."""
    app = tokimori.App("shop")

    @app.job()
    def plain() -> int:
        said.append("plain")
        if "fail" in said:
            raise ValueError("no good")
        return 1

    @app.job()
    async def waits() -> int:
        said.append("waits")
        await asyncio.sleep(0)
        if "fail" in said:
            raise ValueError("no good")
        return 1

    return app


@pytest.mark.parametrize("name", ["plain", "waits"])
def test_a_generator_is_around_every_function(name: str, tmp_path: Path) -> None:
    """What stands before and after the yield surrounds functions and coroutine functions, the first one outermost."""
    app = shop(said := [])

    @app.around
    def outer(task: tokimori.Task) -> Iterator[None]:
        said.append(f"before {task.run_id}")
        try:
            yield
        finally:
            said.append("after")

    @app.around
    def inner(task: tokimori.Task) -> Iterator[None]:
        said.append("inner")
        yield

    assert run(app, tmp_path, name).text == "1"
    assert said == ["before r", "inner", name, "after"]
    said[:] = ["fail"]
    assert run(app, tmp_path, name).end == wire.FAILED
    assert said == ["fail", "before r", "inner", name, "after"]


@pytest.mark.parametrize(("name", "result"), [("plain", "2"), ("waits", "3")])
def test_a_middleware_returns_the_result(name: str, result: str, tmp_path: Path) -> None:
    """A function is around functions, a coroutine function around coroutine functions, and both may change results."""
    app = shop([])

    @app.around
    def more(task: tokimori.Task, call: Callable[[], Any]) -> Any:
        return call() + 1

    @app.around
    async def more_async(task: tokimori.Task, call: Callable[[], Any]) -> Any:
        return await call() + 2

    assert run(app, tmp_path, name).text == result


@pytest.mark.parametrize("name", ["plain", "waits"])
@pytest.mark.parametrize("waits", [False, True])
def test_each_error_is_told_to_the_hooks(name: str, waits: bool, tmp_path: Path) -> None:
    """`on_failure` gets the task and the error; what the hook itself raises is written, and changes nothing."""
    app = shop(said := ["fail"])

    @app.on_failure
    def broken(task: tokimori.Task, error: Exception) -> None:
        raise KeyError("the hook")

    def told(task: tokimori.Task, error: Exception) -> None:
        said.append(f"{task.job_id}: {error}")

    async def told_async(task: tokimori.Task, error: Exception) -> None:
        await asyncio.sleep(0)
        told(task, error)

    app.on_failure(told_async if waits else told)
    ended = run(app, tmp_path, name)
    assert (ended.end, ended.text) == (wire.FAILED, "ValueError: no good")
    assert said[-1] == "j: no good"
    assert b"KeyError: 'the hook'" in ended.head


def test_starts_and_stops_are_called_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    """Starts come in the order of their declaration, stops the last one first, whatever a stop raises."""
    app, said = tokimori.App("shop"), list[str]()

    async def opens() -> None:
        said.append("opens")

    async def closes() -> None:
        said.append("closes")
        raise OSError("broken")

    app.on_start(opens)
    app.on_start(lambda: said.append("second"))
    app.on_stop(lambda: said.append("first"))
    app.on_stop(closes)

    async def scenario() -> None:
        await app.hooks.start()
        await app.hooks.stop()

    asyncio.run(scenario())
    assert said == ["opens", "second", "closes", "first"]
    assert "OSError: broken" in capfd.readouterr().err
    assert app._hello(1, 2).stops


@pytest.mark.parametrize("hook", [3, lambda: 1, lambda task: task, lambda a, b, c: a])
def test_what_can_not_be_around_is_refused(hook: Any) -> None:
    """A middleware with other parameters is refused where it is declared."""
    with pytest.raises(InvalidInput, match="around"):
        tokimori.App("shop").around(hook)


def test_a_rehearsal_calls_the_hooks_on_the_loop_of_its_functions() -> None:
    """What a start opens serves coroutine functions, and is closed when the rehearsal ends."""
    app, opened = tokimori.App("shop"), dict[str, Any]()

    @app.on_start
    async def opens() -> None:
        opened["loop"] = asyncio.get_running_loop()

    @app.on_stop
    async def closes() -> None:
        opened["closed"] = asyncio.get_running_loop() is opened["loop"]

    @app.job()
    async def it() -> bool:
        return asyncio.get_running_loop() is opened["loop"]

    with Rehearsal(app) as rehearsal:
        it.enqueue()
        rehearsal.drain()
        assert [(run.state, run.result) for run in rehearsal.runs()] == [("succeeded", "true")]
    assert opened["closed"]
