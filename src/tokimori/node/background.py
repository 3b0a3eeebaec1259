"""Note of a node in the background, which identifies its process beyond doubt.

A pid is not enough: after the node's end, or a reboot, another program may have it. So the note also holds the start
time of the process and the id of the boot, as the notes of keepers do (`executors/keeper/notes.py`).
"""

import fcntl
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tokimori.executors.keeper.kernel import boot_identity
from tokimori.ownership import PRIVATE

NAME = "node.pid"
"""The file in the state folder."""
STOPPED = "node.stopped"
"""File whose time says when the last node was stopped."""
_ENDED = b"ZX"
"""States of a process that only waits to be collected, in /proc/PID/stat (proc(5))."""


class Note(Struct, frozen=True, kw_only=True):
    """A node in the background. `began`: the start of its process, in clock ticks since the boot.

    `arguments` are those of `serve` besides the settings, `log` is the file of its log.
    """

    pid: int
    began: int
    boot: str
    log: str
    arguments: tuple[str, ...] = ()


class Process(NamedTuple):
    """A living process, as the kernel reports it."""

    began: int
    program: str


class Absent(NamedTuple):
    """Mark of a note that does not exist."""


class Stale(NamedTuple):
    """The node of the note has ended; `why` gives the evidence."""

    note: Note
    why: str


class Living(NamedTuple):
    """The node of the note runs."""

    note: Note


BackgroundState = Absent | Stale | Living


def judged(note: Note | None, boot: str, process: Process | None) -> BackgroundState:
    """Judge a note of a node. `boot` is the identity of this boot, `process` the process with the pid now. Pure."""
    if note is None:
        return Absent()
    if note.boot != boot:
        return Stale(note, f"it ran as pid {note.pid} before this machine, or this container, started anew")
    if process is None:
        return Stale(note, f"its process, pid {note.pid}, has ended without a word")
    if process.began != note.began:
        return Stale(
            note, f"its pid {note.pid} belongs to another program now ({process.program}), which is left alone"
        )
    return Living(note)


def look(pid: int) -> Process | None:
    """Return the living process of that pid."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    name, _, rest = text.rpartition(b")")
    fields = rest.split()
    if fields[0] in _ENDED:
        return None
    return Process(int(fields[19]), name.partition(b"(")[2].decode(errors="replace"))


def background_state(state_dir: Path) -> BackgroundState:
    """Return the standing of the node that was last started in the background."""
    note = _read(state_dir / NAME)
    return judged(note, boot_identity(), None if note is None else look(note.pid))


def _read(file: Path) -> Note | None:
    """Return the note; None if there is none, or another user has written it."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(opened, "rb") as text:
            if os.fstat(opened).st_uid in {0, os.geteuid()}:
                return msgspec.json.decode(text.read().partition(b"\n")[2], type=Note)
    return None


def write_note(state_dir: Path, note: Note) -> None:
    """Write the note. Its first line is the pid alone, as in any pid file. Raises `OSError`."""
    file = state_dir / NAME
    fresh = file.with_name(f".{NAME}.{os.getpid()}")
    opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        with os.fdopen(opened, "wb") as text:
            text.write(f"{note.pid}\n".encode() + msgspec.json.encode(note) + b"\n")
        fresh.rename(file)
    except OSError:
        fresh.unlink()
        raise


def remove_note(state_dir: Path, note: Note) -> None:
    """Remove the note, unless it is another one by now."""
    if _read(state_dir / NAME) == note:
        (state_dir / NAME).unlink(missing_ok=True)


def note_stopped(state_dir: Path) -> None:
    """Note that the node was stopped now."""
    with suppress(OSError):
        (state_dir / STOPPED).touch(PRIVATE)


def stopped_at(state_dir: Path) -> float | None:
    """Return when a node in the background was stopped last, in Unix time."""
    try:
        return (state_dir / STOPPED).stat().st_mtime
    except OSError:
        return None


@contextmanager
def one_at_a_time(state_dir: Path) -> Iterator[None]:
    """Wait until no other program starts or stops the node of this folder."""
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


class Grip:
    """Hold on the process of a note: a signal through it reaches that process or none."""

    def __init__(self, note: Note, descriptor: int) -> None:
        self.note = note
        self._descriptor = descriptor

    def send(self, number: signal.Signals) -> None:
        """Send the signal, if the process still lives."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def ended(self, within: float = 0.0) -> bool:
        """Return whether it ends within so many seconds."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(within * 1000))

    def close(self) -> None:
        """Let go."""
        os.close(self._descriptor)


def grip(note: Note) -> Grip | None:
    """Return a hold on the node; None if its process has ended, even if another one has its pid."""
    try:
        held = Grip(note, os.pidfd_open(note.pid))
    except OSError:
        return None
    process = look(note.pid)  # after the hold: from now on no other process can have the number
    if isinstance(judged(note, boot_identity(), process), Living):
        return held
    held.close()
    return None
