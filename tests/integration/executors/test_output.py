"""What becomes of what commands write: a bounded file, its first and last bytes, and word of its growth."""

import hashlib
import sys
import time

from tests.integration.executors.workshop import Workshop, keeper_of, shell, told
from tokimori.model.outcome import Succeeded
from tokimori.model.target import Command
from tokimori.ports.executor import Ended, Grew, Started

EDGE = 65_536
LIMIT = 10 * 2**20


async def test_silence_leaves_nothing(workshop: Workshop) -> None:
    """A command that writes nothing has no output, no file and no folder."""
    assert (await workshop.run(shell("exit 0"))).output is None
    assert not workshop.runs.exists()


async def test_a_little_output_is_all_there(workshop: Workshop) -> None:
    """Any bytes arrive as they were written, in the report and in a file that only the node's user may read."""
    data = bytes(range(256)) * 4
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4)"
    ended = await workshop.run(Command(argv=(sys.executable, "-c", program)))
    assert ended.output is not None
    assert (ended.output.size, ended.output.head, ended.output.tail) == (1024, data, b"")
    file = workshop.log(ended.run_id)
    assert file.read_bytes() == data
    assert file.stat().st_mode & 0o777 == 0o600


async def test_much_output_is_bounded(workshop: Workshop) -> None:
    """Of 50 MiB, the file keeps the first 10 MiB and the last 64 KiB and says what is missing; no memory grows."""
    program = "import sys\nfor n in range(50 * 16384): sys.stdout.write(f'{n:063}\\n')"
    workshop.start("run", Command(argv=(sys.executable, "-c", program)))
    keeper = keeper_of((await workshop.next(Started, "run")).pid)
    ended = await workshop.next(Ended, "run")
    assert ended.outcome == Succeeded(0)
    assert ended.output is not None
    assert ended.output.size == 50 * 2**20
    first, last = _lines(0, 1024), _lines(50 * 16384 - 1024, 50 * 16384)
    assert (ended.output.head, ended.output.tail) == (first, last)
    kept = _lines(0, 10 * 16384)
    missing = 40 * 2**20 - EDGE
    marked = kept + f"\n[... {missing} bytes left out ...]\n".encode() + last
    assert hashlib.sha256(workshop.log("run").read_bytes()).digest() == hashlib.sha256(marked).digest()
    peak = int(told(keeper, "status").split("VmHWM:")[1].split()[0])
    assert peak < 40_000, "KiB"


async def test_growth_is_told_once_a_second(workshop: Workshop) -> None:
    """While an attempt writes, its last bytes are told once a second, and not at all when it has nothing new."""
    before = time.monotonic()
    ended = await workshop.run(shell("for i in $(seq 250); do echo $i; sleep 0.01; done; sleep 1.2"))
    grown = workshop.all(Grew, ended.run_id)
    assert 2 <= len(grown) <= time.monotonic() - before
    sizes = [report.output.size for report in grown]
    assert sizes == sorted(set(sizes))
    everything = "".join(f"{n}\n" for n in range(1, 251)).encode()
    for report in grown:
        assert report.output.head == b""
        assert report.output.tail == everything[: report.output.size]


async def test_output_that_can_not_be_kept_does_not_hurt_the_run(workshop: Workshop) -> None:
    """A command whose file can't be written runs on, and its output is still reported."""
    workshop.runs.write_text("not a folder")
    ended = await workshop.run(shell("echo hi; echo again"))
    assert ended.outcome == Succeeded(0)
    assert ended.output is not None
    assert ended.output.head == b"hi\nagain\n"


def _lines(first: int, last: int) -> bytes:
    return "".join(f"{n:063}\n" for n in range(first, last)).encode()
