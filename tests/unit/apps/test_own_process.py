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
from tokimori.apps.own_process import Meter, ThreadTime
from tokimori.apps.routes import act_of
from tokimori.apps.streams import Outputs, RunStream

MIB = 2**20


def burn(seconds: float) -> None:
    """Have a processor work for this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def burning(seconds: float) -> Callable[[], None]:
    """A function that does so."""
    return lambda: burn(seconds)


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


def test_of_attempts_in_one_thread_each_has_its_own_time(tmp_path: Path) -> None:
    """What one has used is not the next one's; of short ones it is no more than they took."""
    time_of_thread, costs = ThreadTime(), list[int]()
    for seconds in (0.1, 0, 0, 0.05):
        ended = attempt(burning(seconds), tmp_path).run(time=time_of_thread)
        assert ended is not None
        assert ended.cpu is not None
        assert ended.cpu <= (ended.at - ended.began) * 1_000_000 + 1_000
        costs.append(ended.cpu)
        burn(0.01)  # for nobody
    assert 100_000 <= costs[0] < 108_000
    assert max(costs[1:3]) < 8_000
    assert 50_000 <= costs[3] < 58_000


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


def test_a_stream_outlives_that_of_its_process() -> None:
    """As a program ends its standard output may be closed before the stream in its place, which is no error."""
    own = StringIO()
    stream = RunStream(own)
    own.close()
    stream.close()
    assert not stream.closed
