"""The files that a node and a command leave each other: the payload one way, what the command reports the other."""

import errno
import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tokimori.errors import Bug, Refused
from tokimori.executors.environment import Account
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.reported import MOST_LINE
from tokimori.ports.executor import Task

MOST_IN_ENVIRONMENT = 100_000
"""Bytes of a payload that go into a variable: Linux allows 128 KiB for one, its name included (execve(2))."""

_FRESH = ".new"
_NO_REPORT = frozenset({errno.ELOOP, errno.EACCES, errno.ENXIO, errno.ENOTDIR})
"""What opening a file tells of the file itself: a link, one that may not be read, a socket; no folder around it."""
_LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""What this process or machine lacks for a while."""


class Exchange:
    """The files of one attempt, for the account that it runs as. `note`: says where a folder was made for them."""

    __slots__ = ("_is_large", "_outcome", "_payload", "_text", "_uid", "folder", "note")

    def __init__(self, folder: Path, prefix: str, payload: str | None, uid: int, *, note: Path | None = None) -> None:
        self.folder = folder
        self.note = note
        self._outcome = folder / f"{prefix}outcome"
        self._payload = folder / f"{prefix}payload"
        self._text = payload
        self._is_large = payload is not None and len(payload.encode()) > MOST_IN_ENVIRONMENT
        self._uid = uid

    def variables(self) -> dict[str, str]:
        """What the command finds in its environment: where to report, and its payload or where that is."""
        found = {"TOKIMORI_OUTCOME_FILE": str(self._outcome)}
        if self._is_large:
            found["TOKIMORI_PAYLOAD_FILE"] = str(self._payload)
        elif self._text is not None:
            found["TOKIMORI_PAYLOAD"] = self._text
        return found

    def write_payload(self, account: Account) -> None:
        """Where the environment has no room for it; readable by the account alone. Raises `OSError`."""
        if self._text is None or not self._is_large:
            return
        descriptor = os.open(self._payload, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._text.encode())
            if account.uid != os.geteuid():
                os.fchown(file.fileno(), account.uid, account.gid)

    def reported(self) -> bytes | None:
        """What the command left, None where it is nothing; more than is allowed is cut, so that it is too long.

        Whatever else stands there (a link, a pipe, somebody else's file) is as good as nothing that can be understood:
        the node may read what the command's account may not. Raises `OSError` where it can't be looked at now.
        """
        try:
            descriptor = os.open(self._outcome, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as fault:
            if fault.errno in _NO_REPORT:
                return b""
            raise
        try:
            found = os.fstat(descriptor)
            is_theirs = stat.S_ISREG(found.st_mode) and found.st_uid == self._uid
            return os.read(descriptor, MOST_LINE + 1) if is_theirs else b""
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Take the files away, and the folder where it was made for them."""
        if self.note is not None:
            _remove_theirs(self.folder)
            with suppress(OSError):
                self.note.unlink()
            return
        for file in (self._outcome, self._payload):
            with suppress(OSError):
                file.unlink()


class Exchanges:
    """The folder of one node's exchanges, below that of all nodes of a state folder.

    The node holds a lock on it as long as it lives: the kernel drops it with the node, however that ends.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: Path | None = None
        self._lock: int | None = None

    def make(self) -> None:
        """Make it. Raises `Refused`."""
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self._root / f"{os.getpid()}-{int(boottime() * 1_000_000)}"
            fresh = folder.with_name(folder.name + _FRESH)
            fresh.mkdir(mode=0o700)
            self._lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            fresh.rename(folder)  # one that others may judge by its lock never exists without it
            self._folder = folder
        except OSError as fault:
            where = self._root
            raise Refused(f"{where} can't be made: {fault.strerror}", field="state_dir", value=str(where)) from None

    def open(self, task: Task, account: Account, own: Account) -> Exchange:
        """Make the place for an attempt's files: in this folder; a new one for an account that can't get there.

        One folder for all, because a folder for each takes milliseconds to remove. Raises `Refused`; `OSError` where
        the machine lacks files or memory.
        """
        if self._folder is None:
            raise Bug("the folder of exchanges was not made")
        exchange: Exchange | None = None
        try:
            exchange = self._placed(self._folder, task, account, own)
            exchange.write_payload(account)
            if exchange.note is not None:  # last: nobody else puts anything where the node writes
                os.chown(exchange.folder, account.uid, account.gid)
        except OSError as fault:
            if exchange is not None:
                exchange.remove()
            if fault.errno in _LACKING:
                raise
            raise Refused(f"the files of this attempt can't be made: {fault}") from None
        return exchange

    def _placed(self, folder: Path, task: Task, account: Account, own: Account) -> Exchange:
        if account.uid == own.uid:
            return Exchange(folder, f"{task.run_id}.{task.attempt}.", task.payload, account.uid)
        theirs = Path(tempfile.mkdtemp(prefix="tokimori-"))
        note = folder / theirs.name
        try:
            note.symlink_to(theirs)
        except OSError:
            theirs.rmdir()
            raise
        return Exchange(theirs, "", task.payload, account.uid, note=note)

    def remove(self) -> None:
        """Remove it: every attempt has ended."""
        if self._folder is not None:
            _remove(self._folder)
        if self._lock is not None:
            os.close(self._lock)
        self._folder = self._lock = None

    def remove_dead(self) -> None:
        """Remove those of dead nodes, with the payloads and reports in them. One whose node lives is locked."""
        with suppress(OSError):
            for folder in [path for path in self._root.iterdir() if path.suffix != _FRESH]:
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    except OSError:
        pass
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.is_symlink():
                _remove_theirs(path.readlink())
            path.unlink(missing_ok=True)
        folder.rmdir()


def _remove_theirs(folder: Path) -> None:
    """Remove the folder that was made for another account, which may have put anything in its place by now."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in ("outcome", "payload"):
                with suppress(OSError):
                    os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        folder.rmdir()
