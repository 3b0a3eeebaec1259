"""Who holds the loop for too long is named."""

import asyncio
import selectors
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tokimori.node import systemd
from tokimori.node.systemd import watched

LIMIT = 0.02


@pytest.fixture(autouse=True)
def nobody_else_has_the_timer() -> Iterator[None]:
    """The watchdog of all tests has it, too: it stops before, and watches again afterwards."""
    before = signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, *before)


async def _hold(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


async def _give_way() -> None:
    for _ in range(20):
        await _hold(LIMIT / 5)
        await asyncio.sleep(0)


def test_a_step_that_holds_the_loop_is_told_with_its_stack() -> None:
    """The stack of a step that computes for longer than the limit is told once."""
    told: list[str] = []
    with watched(told.append, signal.ITIMER_VIRTUAL) as (runner, begin):
        begin(LIMIT)
        runner.run(_hold(LIMIT * 10))
    assert len(told) == 1
    assert "_hold" in told[0]


def test_steps_that_give_way_are_not_told() -> None:
    """Many short steps, together longer than the limit, tell nothing."""
    told: list[str] = []
    with watched(told.append, signal.ITIMER_VIRTUAL) as (runner, begin):
        begin(LIMIT)
        runner.run(_give_way())
    assert told == []


def test_the_log_says_who_held_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """A warning with the stack, written by a thread of its own: whoever was stopped may hold a lock of the log."""
    written = threading.Event()
    caplog.handler.addFilter(lambda _: not written.set())  # type: ignore[func-returns-value]
    try:
        with watched(systemd.warn, signal.ITIMER_VIRTUAL) as (runner, begin):
            begin(LIMIT)
            runner.run(_hold(LIMIT * 10))
        assert written.wait(10)
    finally:
        caplog.handler.filters.clear()
    (record,) = caplog.records
    assert "held for over 250 ms" in record.getMessage()
    assert "_hold" in record.getMessage()


def test_what_lasts_before_the_first_watched_step_is_not_told() -> None:
    """A program that loads its modules holds the loop for longer, and may."""
    told: list[str] = []
    with watched(told.append, signal.ITIMER_VIRTUAL) as (runner, _):
        runner.run(_hold(LIMIT * 10))
    assert told == []


def test_a_loop_that_waits_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer stands still from when the loop has nothing to do until it has."""
    waiting: list[tuple[float, float]] = []

    def wait(*_: object) -> list[object]:
        waiting.append(signal.getitimer(signal.ITIMER_VIRTUAL))
        return []

    monkeypatch.setattr(selectors.DefaultSelector, "select", wait)
    selector = systemd.Watched(signal.ITIMER_VIRTUAL)
    selector.begin(100)
    try:
        selector.select()
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
        selector.select()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        selector.close()
    assert waiting == [(0, 0), (0, 0)]
