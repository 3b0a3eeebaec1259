"""A function hears the signals of its run: each once, in order, also those that came before it listened."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tokimori.apps.attempt import RunningAttempt
from tokimori.apps.signals import Signals, SignalThread, carry_out
from tokimori.clock import Moment
from tokimori.executors.functions import wire
from tokimori.model.order import LARGEST_DATA, MOST_SIGNAL_DATA, MOST_SIGNALS


def an_attempt(act: Any, folder: Path) -> RunningAttempt:
    """An attempt at a function."""
    begin = wire.Begin(
        number=1, handler="f", run_id="r", job_id="j", attempt=1, token=1, scheduled_at=Moment(0), due_at=Moment(0)
    )
    return RunningAttempt(begin, act, folder, lambda _: None)


def test_what_came_before_is_kept() -> None:
    """By name, the newest hundred; data is what JSON says."""
    heard: list[Any] = []
    signals = Signals(carry_out)
    for n in range(MOST_SIGNALS + 1):
        signals.receive("n", str(n))
    signals.on("n", heard.append)
    signals.receive("n", '{"a": [1]}')
    signals.receive("other", None)
    assert heard == [*range(1, MOST_SIGNALS + 1), {"a": [1]}]
    signals.on("other", heard.append)
    assert heard[-1] is None


def test_what_is_kept_for_who_does_not_hear_has_a_bound() -> None:
    """Of large signals the newest, as many as fit: a function that never listens does not eat up its process."""
    heard: list[Any] = []
    signals = Signals(carry_out)
    large = '"' + "x" * (LARGEST_DATA - 2) + '"'
    fit = MOST_SIGNAL_DATA // LARGEST_DATA
    for n in range(fit):
        signals.receive(f"n{n % 2}", large)
    signals.receive("small", "1")
    for name in ("n0", "n1", "small"):
        signals.on(name, heard.append)
    assert len(heard) == fit
    assert (heard[-1], {len(data) for data in heard[:-1]}) == (1, {LARGEST_DATA - 2})


def test_a_function_that_does_not_wait_hears_them_in_another_thread(tmp_path: Path) -> None:
    """One after the other, while it works; what a handler raises is in the output of the run, and ends nothing."""
    heard: list[Any] = []
    done = threading.Event()

    def told(data: Any) -> None:
        heard.append((data, threading.current_thread() is not here))
        if len(heard) == 3:
            done.set()
        if data == 2:
            raise ValueError("a bad signal")

    def act(task: Any) -> str:
        attempt.signal("level", "1")
        task.on_signal("level", told)
        for n in (2, 3):
            attempt.signal("level", str(n))
        return "in time" if done.wait(10) else "late"

    here = threading.current_thread()
    attempt = an_attempt(act, tmp_path)
    ended = attempt.run()
    assert ended is not None
    assert (ended.text, heard) == ('"in time"', [(1, True), (2, True), (3, True)])
    assert b"a bad signal" in ended.head


def test_a_signal_that_comes_with_the_end_begins_no_thread() -> None:
    """It would wait for ever for others: nobody ends it any more."""
    before = threading.active_count()
    thread = SignalThread(lambda _: None)
    thread.end()
    thread.give(lambda: None)
    assert threading.active_count() <= before


@pytest.mark.parametrize("fault", [ValueError("a bad signal"), SystemExit("a bad signal")])
async def test_a_handler_on_the_loop_ends_nothing(tmp_path: Path, fault: BaseException) -> None:
    """Nor does one that leaves the program, in which others run: what it raises is in the output of the run."""

    def told(_: Any) -> None:
        raise fault

    async def act(task: Any) -> str:
        task.on_signal("go", told)
        for _ in range(3):
            await asyncio.sleep(0)
        return "goes on"

    attempt = an_attempt(act, tmp_path)
    attempt.coroutine = working = asyncio.create_task(attempt.run_async())  # type: ignore[assignment]
    attempt.signal("go", None)
    ended: wire.FunctionEnded = await working
    assert (ended.end, ended.text) == (wire.SUCCEEDED, '"goes on"')
    assert b"a bad signal" in ended.head


async def test_a_function_that_waits_hears_them_on_its_loop(tmp_path: Path) -> None:
    """Handlers may be coroutine functions; one that still works at the end of the run ends with it."""
    heard: list[Any] = []
    came = asyncio.Event()

    async def told(data: Any) -> None:
        heard.append(data)
        came.set()
        await asyncio.Event().wait()

    async def act(task: Any) -> None:
        task.on_signal("go", told)
        await came.wait()

    attempt = an_attempt(act, tmp_path)
    attempt.coroutine = working = asyncio.create_task(attempt.run_async())  # type: ignore[assignment]
    await asyncio.sleep(0)
    attempt.signal("go", '"now"')
    ended: wire.FunctionEnded = await working
    assert (ended.end, heard) == (wire.SUCCEEDED, ["now"])
