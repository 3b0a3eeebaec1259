"""Costs of commands: the processors and the memory that an attempt used, with its children."""

import re
import sys

import pytest

from tests.integration.executors.workshop import BOTH_WAYS, Workshop, shell
from tokimori.model.outcome import Failed, Succeeded, TimedOut
from tokimori.model.target import Command
from tokimori.ports.executor import Ended

pytestmark = pytest.mark.parametrize("workshop", BOTH_WAYS, indirect=True)
BURN = "import time\nwhile time.process_time() < 0.3: pass"
HOARD = "x = bytearray(150 << 20)"


def python(code: str) -> Command:
    """A command of this Python."""
    return Command(argv=(sys.executable, "-I", "-S", "-c", code))


async def test_a_command_tells_what_it_cost(workshop: Workshop) -> None:
    """The time of processors is what it burned, and the memory what it had at its peak."""
    ended = await workshop.run(python(BURN))
    assert ended.cpu is not None
    assert 300_000 <= ended.cpu < 3_000_000
    ended = await workshop.run(python(HOARD))
    assert ended.memory is not None
    assert 150 << 20 <= ended.memory < 300 << 20


async def test_children_count(workshop: Workshop) -> None:
    """Processes that a command has waited for cost, and so do those that it leaves in its group."""
    run = f"{sys.executable} -I -S -c"
    ended = await workshop.run(shell(f"{run} '{BURN}'; {run} '{HOARD}'"))
    assert ended.cpu is not None
    assert ended.memory is not None
    assert ended.cpu >= 300_000
    assert ended.memory >= 150 << 20
    left = f"({run} '{HOARD}; print(1, flush=True); import time; time.sleep(60)' &) | head -1"
    ended = await workshop.run(shell(left))
    assert ended.outcome == Succeeded(0)
    assert (ended.memory or 0) >= 150 << 20 or not workshop.pidfd  # the waiter thread takes the ends of orphans


async def test_an_unknown_peak_is_none(workshop: Workshop) -> None:
    """Of a command that is smaller than its keeper nobody can tell the memory; of one that never began nothing."""
    assert (await workshop.run(shell("true"))).memory is None
    never = await workshop.run(Command(argv=("/nothing/there",)))
    assert (never.cpu, never.memory) == (None, None)


async def test_a_command_that_uses_more_than_it_may_is_ended(workshop: Workshop) -> None:
    """By TERM, then KILL, and the error says which limit; children in its group count, and others go on."""
    workshop.start("other", shell("exec sleep 1000"), max_cpu=0.5, max_memory=100)
    hoard = f"{sys.executable} -I -S -c '{HOARD}; import time; time.sleep(1000)'"
    ended = await workshop.run(shell(f"{hoard} & wait"), max_memory=100)
    assert isinstance(ended.outcome, Failed)
    assert re.fullmatch(r"it had more memory than max_memory allows: 1\d\d MiB of 100", ended.outcome.error)
    assert ended.outcome.signal == 15
    burn = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: pass"
    ended = await workshop.run(python(burn), max_cpu=0.3, timeout_grace=0.1)
    assert isinstance(ended.outcome, Failed)
    assert re.fullmatch(r"it used more processor time than max_cpu allows: [\d.]+ s of 0.3", ended.outcome.error)
    assert ended.outcome.signal == 9
    assert not workshop.all(Ended, "other")


async def test_a_command_within_its_limits_goes_on(workshop: Workshop) -> None:
    """It ends by itself, or by its time-out."""
    ended = await workshop.run(python(BURN), max_cpu=60.0, max_memory=1000)
    assert ended.outcome == Succeeded(0)
    ended = await workshop.run(shell("exec sleep 1000"), max_cpu=1.0, timeout=0.5)
    assert ended.outcome == TimedOut("it took longer than 0.5 s", signal=15)
