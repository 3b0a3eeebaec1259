"""Calls of the kernel about processes, and Linux's /proc (proc(5))."""

import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from resource import struct_rusage

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
"""From <linux/prctl.h>."""

_SHORT = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_NO_THREAD = "can't start new thread"
"""The words of Python's RuntimeError."""
_GONE = b"ZX"
"""States of a process that only waits to be collected."""
_ROUNDS = 100
_PAUSE = 0.01
"""Seconds between two looks at processes that are being ended; with `_ROUNDS`, how long they are waited for."""


class ProcessSeen(NamedTuple):
    """A living process. `began` is in seconds since boot, to a hundredth."""

    pid: int
    group: int
    session: int
    began: float = inf


def boottime() -> float:
    """Return the seconds since boot, suspension included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_identity() -> str:
    """Return this boot of this machine, and the pid namespace in which pids are meant."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def is_short(fault: BaseException | None) -> bool:
    """Return if the error says that the machine lacked processes, threads, files or memory."""
    match fault:
        case OSError():
            return fault.errno in _SHORT
        case RuntimeError():
            return str(fault) == _NO_THREAD
        case _:
            return isinstance(fault, MemoryError)


def see(pid: int) -> ProcessSeen | None:
    """Return the process, unless it is gone or a zombie."""
    try:
        text = _read_proc(f"/proc/{pid}/stat")
    except OSError:
        return None
    state, _parent, group, session, *rest = text[text.rindex(b")") + 2 :].split(maxsplit=20)
    return (
        None if state in _GONE else ProcessSeen(pid, int(group), int(session), int(rest[15]) / os.sysconf("SC_CLK_TCK"))
    )


def waits_for_disk(pid: int) -> bool:
    """Return if a process is in a call of the kernel that goes on at no signal: mostly one of a disk or file server."""
    try:
        return _read_proc(f"/proc/{pid}/stat").rpartition(b") ")[2].startswith(b"D")
    except OSError:
        return False


class Use(NamedTuple):
    """Use of the machine: seconds of processors, ended children included, and bytes in memory."""

    cpu: float
    memory: int

    def excess(self, max_cpu: float | None, max_memory: int | None, before: float = 0.0) -> str:
        """Return which of the limits (seconds, MiB) it is above, in words. Seconds from `before` do not count."""
        if max_memory is not None and self.memory > max_memory * 2**20:
            return f"it had more memory than max_memory allows: {self.memory / 2**20:.0f} MiB of {max_memory}"
        if max_cpu is not None and self.cpu - before > max_cpu:
            return f"it used more processor time than max_cpu allows: {self.cpu - before:.1f} s of {max_cpu:g}"
        return ""


def use_of(pid: int) -> tuple[int, Use] | None:
    """Return the group of a process and what it uses; None if it is gone."""
    try:
        text = _read_proc(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split(maxsplit=22)
    cpu = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return int(fields[2]), Use(cpu, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def use_of_groups(leaders: Set[int]) -> dict[int, Use]:
    """Return what these processes use together with all others of their groups, which have their numbers."""
    found = dict.fromkeys(leaders, Use(0.0, 0))
    for entry in os.listdir("/proc"):  # noqa: PTH208  there may be thousands
        if entry.isdecimal() and (use := use_of(int(entry))) is not None:
            group = int(entry) if int(entry) in leaders else use[0]
            if group in found:
                found[group] = Use(found[group].cpu + use[1].cpu, found[group].memory + use[1].memory)
    return found


def everything() -> Iterator[ProcessSeen]:
    """Yield every living process that /proc shows."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (seen := see(int(entry.name))) is not None:
            yield seen


def environment(pid: int, most: int = -1) -> list[bytes]:
    """Return the `NAME=value` entries of a process, in the first `most` bytes; none if it can't be read."""
    try:
        return _read_proc(f"/proc/{pid}/environ", most).split(b"\0")
    except OSError:
        return []


def _read_proc(file: str, most: int = -1) -> bytes:
    """Return the content of a file of /proc. Raises `OSError`."""
    with open(file, "rb", buffering=0) as opened:  # noqa: PTH123  a path and a buffer take longer than all else
        return opened.read(most) or b""


def adopt_orphans() -> int | None:
    """Make descendants whose parent dies children of this process (prctl(2)).

    Returns the descriptor with which `children` lists them; None if the kernel lacks either.
    """
    try:
        file = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if _prctl(PR_SET_CHILD_SUBREAPER, 1):
        return file
    os.close(file)
    return None


def name_myself(name: bytes) -> None:
    """Set the name that `ps -o comm` shows; at most 15 bytes."""
    _prctl(PR_SET_NAME, ctypes.create_string_buffer(name))


class Title:
    """The command line of this process as `ps` shows it: a text in the memory of its arguments, cut to their length."""

    def __init__(self) -> None:
        self._start = self._size = 0
        try:
            fields = _read_proc("/proc/self/stat").rpartition(b")")[2].split()
            start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, proc(5)
            if 0 < start < end and ctypes.string_at(start, end - start) == _read_proc("/proc/self/cmdline"):
                self._start, self._size = start, end - start
        except (OSError, ValueError, IndexError):
            pass

    def show(self, text: str) -> None:
        """Show the text, if the kernel says where the arguments are."""
        if self._size:
            data = text.encode(errors="replace")[: self._size - 1].ljust(self._size, b"\0")
            ctypes.memmove(self._start, data, self._size)


def die_with_parent() -> None:
    """Have the kernel KILL this process as soon as its parent is dead."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def use_batch_scheduling() -> None:
    """Ask for SCHED_BATCH (sched(7)): a waking process takes no core from another one; its share stays the same.

    A policy other than the default was set on purpose and stays; so does the default if a sandbox refuses.
    """
    with suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def children(file: int) -> list[int]:
    """Return the pids of this process's children, adopted ones and zombies included."""
    text = b""
    while piece := os.pread(file, 1 << 16, len(text)):
        text += piece
    return [int(pid) for pid in text.split()]


def peak() -> int:
    """Return the peak of this process's own memory in KiB; 0 if it can't be read.

    `getrusage` would return the larger one that the kernel has noted at our exec: that of the process that started us.
    """
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/status").read_bytes().partition(b"VmHWM:")[2].split()[0])
    return 0


class Spent:
    """Cost of processes that were collected: microseconds of processors, and the bytes of the largest at its peak.

    The kernel counts for a process, too, what it had of its parent before its exec (`setmax_mm_hiwater_rss`): a peak
    that is not above the parent's own (`floor`) is unknown (None).
    """

    __slots__ = ("cpu", "floor", "memory")

    def __init__(self, floor: int) -> None:
        self.cpu = 0
        self.memory: int | None = None
        self.floor = floor

    def add(self, usage: "struct_rusage") -> None:
        """Add what a process, and the children that it has waited for, have used (wait4(2))."""
        self.cpu += round((usage.ru_utime + usage.ru_stime) * 1_000_000)
        if usage.ru_maxrss > self.floor:
            self.memory = max(self.memory or 0, usage.ru_maxrss * 1024)


def collect(pid: int, spent: Spent | None = None) -> None:
    """Take a dead child's exit status, so that it vanishes; a living one is left alone. `spent` gets its cost."""
    try:
        collected, _, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return
    if collected and spent is not None:
        spent.add(usage)


def collect_group(group: int, leaders: Set[int], spent: Spent | None = None) -> bool:
    """Collect this process's dead children in a group, but none of the leaders; returns whether one is left.

    While one is left, the group's number can't be reused: only its parent makes it vanish. A leader of another group
    may have joined this one: the waiter for its end collects it.
    """
    try:
        while (dead := os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid in leaders:
                return True
            collect(dead.si_pid, spent)
    except ChildProcessError:
        return False
    return True


def end_all(doomed: Callable[[ProcessSeen], bool]) -> None:
    """KILL every such process until none is left; gives up after a second (a process stuck in I/O)."""
    for _ in range(_ROUNDS):
        found = [seen.pid for seen in everything() if doomed(seen)]
        if not found:
            return
        for pid in found:
            send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def send(pid: int, number: int) -> None:
    """Send a signal; to a group if `pid` is negative. A process that is gone or may not be signalled is ignored."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _prctl(option: int, argument: object) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
