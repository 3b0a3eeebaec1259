"""Cost of an attempt at a function: its own, or unknown."""

import asyncio
import subprocess
import sys
import threading
import time

from tokimori.apps.own_process import Meter

MIB = 2**20


def burn(seconds: float) -> None:
    """Have a processor work for this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_an_attempt_beside_others_has_the_time_of_its_thread_alone() -> None:
    """Other threads of its process do not count, nor does memory, which is everybody's."""
    meter = Meter(alone=False)
    meter.begin(is_sole=True)
    beside = threading.Thread(target=burn, args=(0.3,))
    beside.start()
    burn(0.05)
    beside.join()
    cpu, memory = meter.cost()
    assert cpu is not None
    assert 50_000 <= cpu < 250_000
    assert memory is None


async def test_nobody_knows_what_one_among_many_in_a_loop_costs() -> None:
    """Neither of a coroutine, nor of what a function returned for the loop to wait for, nor from another thread."""
    meter = Meter(alone=False)
    meter.begin(is_sole=False)
    assert meter.cost() == (None, None)
    meter.begin(is_sole=True)
    assert (await asyncio.to_thread(meter.cost)) == (None, None)
    meter.begin(is_sole=False)
    assert meter.cost() == (None, None)


async def test_an_attempt_alone_has_all_of_its_process() -> None:
    """Its threads, the children for which it waited, and the memory of the largest."""
    meter = Meter(alone=True)
    meter.begin(is_sole=False)
    code = "import time\nx = bytearray(300 << 20)\nwhile time.process_time() < 0.1: pass"
    await asyncio.gather(asyncio.to_thread(burn, 0.05), asyncio.to_thread(subprocess.run, [sys.executable, "-c", code]))
    meter.begin(is_sole=False)  # once begun it goes on
    cpu, memory = meter.cost()
    assert cpu is not None
    assert cpu >= 150_000
    assert memory is not None
    assert memory >= 300 * MIB
