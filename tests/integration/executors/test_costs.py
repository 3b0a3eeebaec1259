"""Costs of commands: the processors and the memory that an attempt used, with its children."""

import sys

import pytest

from tests.integration.executors.workshop import BOTH_WAYS, Workshop, shell
from tokimori.model.outcome import Succeeded
from tokimori.model.target import Command

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
    assert (ended.outcome, (ended.memory or 0) >= 150 << 20) == (Succeeded(0), True)


async def test_an_unknown_peak_is_none(workshop: Workshop) -> None:
    """Of a command that is smaller than its keeper nobody can tell the memory; of one that never began nothing."""
    assert (await workshop.run(shell("true"))).memory is None
    never = await workshop.run(Command(argv=("/nothing/there",)))
    assert (never.cpu, never.memory) == (None, None)
