"""Notes of living keepers, by which the processes of a killed keeper are found and ended.

All processes of a keeper are in its session, whose number is the keeper's pid. So the name of the file is that pid. Its
text is the boot and the pid namespace of the pid, and until when the keeper surely lived: a little ahead while it
spawns, as it may be killed before it can write. The keeper holds a lock on the file, which the kernel drops at its end.
The note need not survive a crash of the machine.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .kernel import ProcessSeen, boot_identity, boottime, end_all, environment, everything

SUFFIX = ".keeper"
MARKS = ("TOKIMORI_RUN_ID", "TOKIMORI_TOKEN")
LOCK_MARKS = ("TOKIMORI_LOCK", "TOKIMORI_LOCK_TOKEN")
"""Variables in the environment of what a keeper spawns: for a run, and for `tokimori lock`. Worker processes have none,
and a command may clear them."""


class Note:
    """The note of this keeper."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}-{int(boottime() * 1_000_000)}{SUFFIX}"
        fresh = self._path.with_suffix(".new")
        self._file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        identity = boot_identity().encode() + b"\n"
        os.write(self._file, identity)
        self._end = len(identity)
        fresh.rename(self._path)  # a file that others may judge by its lock never exists without it

    def lives(self, ahead: float = 0.0) -> None:
        """Note that the keeper lives now: processes of its session, up to `ahead` seconds from now, are its own."""
        with suppress(OSError):
            os.pwrite(self._file, f"{boottime() + ahead:020.6f}".encode(), self._end)

    def remove(self) -> None:
        """Remove the note: no process is left."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def end_what_dead_keepers_left(folder: Path) -> None:
    """KILL what dead keepers left running, and remove their notes.

    Several may do so at the same time: none of them takes another one for the keeper, and goes on before it is done.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            identity, _, lived = path.read_text().partition("\n")
            if identity == boot_identity():
                _end_if_ours(int(path.name.partition("-")[0]), float(lived or 0))
            path.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError):
            pass  # its keeper lives, or it was removed by that or by another starting keeper
        finally:
            os.close(file)


def end_session(number: int) -> None:
    """KILL all processes in the session of a dead, uncollected keeper with this pid."""
    end_all(lambda seen: seen.session == number)


def _end_if_ours(number: int, lived: float) -> None:
    if is_ours(number, list(everything()), environment, lived):
        end_session(number)


def is_ours(
    session: int, living: Sequence[ProcessSeen], environment_of: Callable[[int], list[bytes]], lived: float = 0.0
) -> bool:
    """Return if processes in this session were spawned by the dead keeper of that pid, and not by strangers.

    The kernel does not reuse a number that names a session. If a process has the keeper's pid, the session is another
    one. The session may also be that of a dead stranger: so a process in it must have begun while the keeper lived
    (until `lived`, in seconds since boot), or carry our mark.
    """
    members = [seen for seen in living if seen.session == session]
    leaderless = all(seen.pid != session for seen in members)
    return leaderless and any(seen.began <= lived or is_marked(environment_of(seen.pid)) for seen in members)


def is_marked(entries: Sequence[bytes]) -> bool:
    """Return if this is the environment of a process that a keeper spawned."""
    names = {entry.partition(b"=")[0] for entry in entries}
    return any(all(mark.encode() in names for mark in marks) for marks in (MARKS, LOCK_MARKS))
