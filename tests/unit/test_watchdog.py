"""The watchdog of the tests: it tells who holds a loop, and only that."""

import asyncio
import gc
import threading
import time
import weakref
from functools import partial

import pytest

from tests.watchdog import EVERY, MOST, Watchdog, slowness
from tokimori.clock import Moment
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments

SECONDS = 4 * MOST


class Held:
    """Something that a step has."""


def look_for_moments(seconds: float) -> None:
    """Let the product's code run for so long, in one call."""
    schedule, number, start = parse_schedule("* * * * *"), 10_000, time.thread_time()
    while time.thread_time() < start + seconds:
        start = time.thread_time()
        next_moments(schedule, Moment(0), number := 2 * number)


def look_often() -> None:
    """Call the product often, and each time for a moment."""
    schedule, end = parse_schedule("* * * * *"), time.thread_time() + SECONDS
    while time.thread_time() < end:
        next_moments(schedule, Moment(0), 20)


def count_up() -> None:
    """Let code of the tests run for as long."""
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        pass


async def test_a_step_of_the_product_that_holds_the_loop_is_told_with_its_stack(watchdog: Watchdog) -> None:
    """It fails the test, and says where the time went."""
    asyncio.get_running_loop().call_soon(look_for_moments, SECONDS * slowness())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (told,) = watchdog.found()
    assert "held the loop" in told
    assert "next_moments" in told


async def test_a_slow_machine_is_not_the_products_fault(watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all takes a hundred times as long, a step may take so long, too."""
    monkeypatch.setattr("tests.watchdog.slowness", lambda: 100.0)
    asyncio.get_running_loop().call_soon(look_for_moments, SECONDS)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watchdog.found() == []


def test_a_loop_of_another_thread_is_watched_too(watchdog: Watchdog) -> None:
    """What holds it is told with its stack; what tests compute there is not."""

    async def take() -> None:
        for work in (count_up, partial(look_for_moments, SECONDS * slowness())):
            asyncio.get_running_loop().call_soon(work)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(take()))
    thread.start()
    while thread.is_alive():
        thread.join(EVERY)
    (told,) = watchdog.found()
    assert "next_moments" in told


async def test_what_tests_compute_is_not_the_products_fault(watchdog: Watchdog) -> None:
    """A test may do in one step what it likes."""
    asyncio.get_running_loop().call_soon(count_up)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watchdog.found() == []


async def test_a_test_that_calls_the_product_often_holds_the_loop_by_itself(watchdog: Watchdog) -> None:
    """On a slow machine 2,000 calls of a few microseconds are long, and none of them is."""
    asyncio.get_running_loop().call_soon(look_often)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watchdog.found() == []


async def test_many_short_steps_are_none_that_is_long(watchdog: Watchdog) -> None:
    """Each step is timed by itself."""
    schedule = parse_schedule("* * * * *")
    for _ in range(200):
        next_moments(schedule, Moment(0), 20)
        await asyncio.sleep(0)
    assert watchdog.found() == []


async def test_what_a_step_had_is_freed_with_it(watchdog: Watchdog) -> None:
    """A frame of it that was looked at holds the frames below, and with them the step: nothing may hold that frame."""
    freed = list[bool]()

    def work() -> None:
        schedule, held = parse_schedule("* * * * *"), Held()
        weakref.finalize(held, freed.append, True)
        end = time.thread_time() + 4 * EVERY
        while time.thread_time() < end:
            next_moments(schedule, Moment(0), 2_000)

    gc.disable()
    try:
        asyncio.get_running_loop().call_soon(work)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert freed == [True]
    finally:
        gc.enable()
    assert watchdog.found() == []
