"""Cost of an attempt at a function: its own, or unknown."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from io import StringIO
from os import memfd_create, write
from pathlib import Path

from msgspec.structs import replace

from tests.unit.apps.orders import begin
from tokimori.apps.attempt import RunningAttempt
from tokimori.apps.own_process import Meter
from tokimori.apps.routes import act_of
from tokimori.apps.streams import Outputs

MIB = 2**20


def burn(seconds: float) -> None:
    """Have a processor work for this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def attempt(function: Callable[[], object], folder: Path) -> RunningAttempt:
    """An attempt at a function in a process with others."""
    return RunningAttempt(begin(), act_of(function), folder, lambda _: None)


def test_an_attempt_beside_others_has_the_time_of_its_thread_alone(tmp_path: Path) -> None:
    """Other threads of its process do not count, nor does memory, which is everybody's."""

    def work() -> None:
        beside = threading.Thread(target=burn, args=(0.3,))
        beside.start()
        burn(0.05)
        beside.join()

    ended = attempt(work, tmp_path).run()
    assert ended is not None
    assert ended.cpu is not None
    assert 50_000 <= ended.cpu < 250_000
    assert ended.memory is None


def test_the_clock_of_a_thread_is_read_once_for_each_of_its_attempts(tmp_path: Path) -> None:
    """What one has used is not the next one's, which begins where that ended."""
    first, second = attempt(lambda: burn(0.1), tmp_path), attempt(lambda: burn(0.05), tmp_path)
    assert first.run() is not None
    ended = second.run(spent=first.spent)
    assert ended is not None
    assert ended.cpu is not None
    assert 50_000 <= ended.cpu < 100_000
    assert (second.spent or 0) - (first.spent or 0) >= 50_000_000


async def test_nobody_knows_what_one_among_many_in_a_loop_costs(tmp_path: Path) -> None:
    """Neither of a coroutine, nor of what a function returned for the loop to wait for, nor from another thread."""

    async def work() -> None:
        burn(0.01)

    coroutine, returned, exits = (attempt(each, tmp_path) for each in (work, lambda: work(), lambda: None))  # noqa: PLW0108
    assert (await coroutine.run_async()).cpu is None
    assert returned.run() is None
    assert (await returned.run_async()).cpu is None
    assert exits.exits(3).cpu is None


async def test_an_attempt_alone_has_all_of_its_process() -> None:
    """Its threads, the children for which it waited, and the memory of the largest."""
    meter = Meter()
    code = "import time\nx = bytearray(300 << 20)\nwhile time.process_time() < 0.1: pass"
    await asyncio.gather(asyncio.to_thread(burn, 0.05), asyncio.to_thread(subprocess.run, [sys.executable, "-c", code]))
    cpu, memory = meter.cost()
    assert cpu >= 150_000
    assert memory >= 300 * MIB


def test_what_was_written_beside_others_is_looked_for_once_for_all(tmp_path: Path) -> None:
    """It names each of which it may be, those that have ended since the last look among them; of one alone it is."""
    outputs, log, file = Outputs(), StringIO(), memfd_create("output")
    outputs._file, outputs._otherwise = file, log
    running = {
        number: RunningAttempt(
            replace(begin(number=number), job_id=f"job{number}"),
            act_of(lambda: write(file, b"written\n") and None),
            tmp_path,
            lambda _: None,
            ends=outputs.ends,
        )
        for number in (1, 2, 3)
    }
    outputs.attempts |= {1: running[1], 2: running[2]}
    for number in (1, 2):
        ended = running[number].run()
        assert ended is not None
        assert (ended.size, log.getvalue()) == (0, "")
    outputs.gather_late()
    first, second = log.getvalue().splitlines()
    assert first == second
    assert "job1" in first
    assert "job2" in first
    outputs.attempts.clear()
    outputs.attempts[3] = running[3]
    ended = running[3].run()
    assert ended is not None
    assert ended.head == b"written\n"
    running[2].write("too late")
    outputs._lately.append(running[2])  # alone, and over by the time at which somebody looks
    outputs.attempts.clear()
    write(file, b"late\n")
    outputs.gather_late()
    assert log.getvalue().endswith("late\n")
