"""Stacks of a process's threads, though its interpreter may be stuck: the process writes them to a file.

The file is in memory. At its beginning it is noted which thread runs which attempt; behind that the handler of a signal
writes the stacks of all threads, for which it needs no interpreter (faulthandler). The asking user is the same.
"""

import faulthandler
import mmap
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

SIGNAL = signal.SIGRTMIN + 13
"""One that nothing else uses."""
_NOTES = 256
_HEAD = 8 * _NOTES
_BITS = 40
"""Those of an attempt's number in a note; those of its thread stand above them."""
_MOST = 64 * 1024
"""Bytes of stacks that are read."""
_MOST_THREADS = 1024
LOOP = 1
"""In place of a thread: the attempt is a coroutine on the loop."""


class Stacks:
    """The file of this process."""

    def __init__(self) -> None:
        self.file = os.memfd_create("tokimori-stacks")
        os.ftruncate(self.file, _HEAD)
        os.lseek(self.file, 0, os.SEEK_END)
        self._notes = memoryview(mmap.mmap(self.file, _HEAD)).cast("Q")
        faulthandler.register(SIGNAL, self.file, all_threads=True)

    def begins(self, number: int, thread: int = LOOP) -> None:
        """Note that the loop runs this attempt, or the thread of this number (of the kernel)."""
        self._notes[number % _NOTES] = thread << _BITS | number

    def ended(self, number: int) -> None:
        """Note that none does."""
        self._notes[number % _NOTES] = 0


class Seen(Struct, frozen=True, kw_only=True):
    """View of a process: `stacks` as faulthandler writes them, and the thread of each attempt.

    `stopped`: it does not run at all. `used` is how much CPU (in ticks) each thread took between two looks.
    """

    stopped: bool = False
    stacks: str = ""
    runs: Mapping[int, int] = {}
    used: Mapping[int, int] = {}


class Look:
    """First look at a process, which requests its stacks; `again` returns them."""

    def __init__(self, pid: int, file: int) -> None:
        self._pid = pid
        self._file = f"/proc/{pid}/fd/{file}"
        self._used = _used(pid)
        self._size = 0
        with suppress(OSError):
            self._size = Path(self._file).stat().st_size
            if not _stopped(pid) and _heeds(pid):
                os.kill(pid, SIGNAL)

    def again(self) -> Seen:
        """Return the stacks and the CPU use since the first look. Unreadable parts are empty."""
        head = text = b""
        with suppress(OSError), open(self._file, "rb", buffering=0) as file:  # noqa: PTH123
            head = file.read(_HEAD) or b""
            file.seek(self._size)
            text = file.read(_MOST) or b""
        words = memoryview(head).cast("Q") if len(head) == _HEAD else ()
        runs = {word & (1 << _BITS) - 1: word >> _BITS for word in words if word}
        used = {thread: ticks - self._used.get(thread, 0) for thread, ticks in _used(self._pid).items()}
        return Seen(stopped=_stopped(self._pid), stacks=text.decode(errors="replace"), runs=runs, used=used)


def _stopped(pid: int) -> bool:
    return _stat(f"/proc/{pid}/stat")[:1] in (["T"], ["t"])


def _used(pid: int) -> dict[int, int]:
    """Return the CPU that each thread has used so far, in ticks."""
    found: dict[int, int] = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]:  # noqa: PTH208
            if len(fields := _stat(f"/proc/{pid}/task/{thread}/stat")) > 12:
                found[int(thread)] = int(fields[11]) + int(fields[12])
    return found


def _stat(file: str) -> list[str]:
    """Return the fields after the name (proc(5)), the state first; none if they can't be read."""
    try:
        return Path(file).read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _heeds(pid: int) -> bool:
    """Return if the signal ends nothing: the process has a handler for it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (SIGNAL - 1) & 1)
    return False
