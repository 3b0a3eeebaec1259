"""The files that a node and a command leave each other: the payload one way, what the command reports the other."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

from tokimori.errors import Bug, Refused
from tokimori.executors.facts import Account
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.reported import MOST_LINE
from tokimori.model.parents import text_of
from tokimori.ownership import others_reach
from tokimori.ports.executor import AttemptTask

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_AT_ONCE = 1_000
"""Files of one attempt that are removed on the loop; what is beyond goes with the node's folder."""
_MOST = 100_000
_DEEPEST = 50
_PASSABLE = 0o711


class OthersFolder:
    """The folder of this node: anybody passes through it, and only the node changes what it holds.

    Raises `Refused` if others could put another folder in its place, and `OSError`.
    """

    def __init__(self) -> None:
        above = Path(tempfile.gettempdir())
        if fault := others_reach(above):
            raise Refused(
                f"files for another user's command can't be kept in {above}: {fault}, or set TMPDIR to a folder "
                "of this node's user that others may pass through"
            )
        self.path = Path(tempfile.mkdtemp(prefix="tokimori-"))
        self.descriptor = os.open(self.path, FOLDER)
        os.fchmod(self.descriptor, _PASSABLE)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)  # systemd-tmpfiles(8) leaves a folder that is locked alone
        self._numbers = count(1)

    def add(self) -> str:
        """Make a folder in it for one attempt, still the node's own; its name. Raises `OSError`."""
        name = str(next(self._numbers))
        os.mkdir(name, 0o700, dir_fd=self.descriptor)
        return name

    def remove(self) -> None:
        """Remove the folder with its content."""
        _empty(self.descriptor)
        with suppress(OSError):
            self.path.rmdir()
        os.close(self.descriptor)


def remove_dead(path: Path) -> None:
    """Take away the folder of a dead node. What else may stand there by now stays."""
    with suppress(OSError):
        if others_reach(path.parent):
            return
        descriptor = os.open(path, FOLDER)
        try:
            found = os.fstat(descriptor)
            if (found.st_uid, stat.S_IMODE(found.st_mode)) != (os.geteuid(), _PASSABLE):
                return
            _empty(descriptor)
            path.rmdir()
        finally:
            os.close(descriptor)


def remove_at(folder: int, name: str, most: int = MOST_AT_ONCE) -> int:
    """Take away a folder in the open one, as far as `most` files; how many more there might have been.

    Its owner may have put anything there, links and others' folders among it: only what stands in folders of his own is
    removed, as he could do himself.
    """
    return _remove_below(folder, name, None, most, _DEEPEST)


def _empty(folder: int) -> None:
    most = _MOST
    for name in os.listdir(folder):
        most = remove_at(folder, name, most)


def _remove_below(folder: int, name: str, owner: int | None, most: int, depth: int) -> int:
    try:
        inner = os.open(name, FOLDER | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return most
    try:
        found = os.fstat(inner).st_uid
        if depth and owner in {None, found}:
            most = _remove_all(inner, found, most, depth - 1)
    except OSError:
        return most
    finally:
        os.close(inner)
    with suppress(OSError):
        os.rmdir(name, dir_fd=folder)
    return most


def _remove_all(folder: int, owner: int, most: int, depth: int) -> int:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, most)]
    for name in names:
        most -= 1
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:
            most = _remove_below(folder, name, owner, most, depth)
    return most


MOST_IN_ENVIRONMENT = 100_000
"""Bytes of a text that go into a variable: Linux allows 128 KiB for one, its name included (execve(2))."""

_FRESH = ".new"
_NO_REPORT = frozenset({errno.ELOOP, errno.EACCES, errno.ENXIO, errno.ENOTDIR, errno.EAGAIN})
"""Errors of opening a file that concern the file itself: a link, one that may not be read, a socket; no folder around
it; one for which its owner has a lease (fcntl(2)), which may last."""
_LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT})
"""What this process or machine lacks for a while."""


class Exchange:
    """The files of one attempt, for the account that it runs as.

    They lie in `folder`, open as `at`, with this prefix; or, if `theirs` is given, in the folder of that name in it,
    which belongs to the account. That one is reached by its name in `at` alone: the account can't put another there.
    """

    __slots__ = ("_at", "_outcome", "_prefix", "_texts", "_theirs", "_uid", "folder")

    def __init__(
        self,
        folder: Path,
        at: int,
        prefix: str,
        payload: str | None,
        uid: int,
        *,
        theirs: str | None = None,
        parent: str | None = None,
    ) -> None:
        self.folder = folder if theirs is None else folder / theirs
        self._at = at
        self._theirs = theirs
        self._outcome = f"{prefix}outcome"
        self._prefix, self._uid = prefix, uid
        self._texts = {"payload": payload, "parent_result": parent}

    def variables(self) -> dict[str, str]:
        """Return the variables for the command: where to report, its payload, and the result of its parents."""
        found = {"TOKIMORI_OUTCOME_FILE": str(self.folder / self._outcome)}
        for name, text in self._texts.items():
            if text is not None:
                variable = f"TOKIMORI_{name.upper()}"
                file = str(self.folder / f"{self._prefix}{name}")
                found |= {f"{variable}_FILE": file} if _is_large(text) else {variable: text}
        return found

    def prepare(self, account: Account) -> None:
        """Write the texts for which the environment has no room; then the files are the account's alone.

        The folder comes last: nobody else puts anything where the node writes. Raises `OSError`.
        """
        with self._opened() as folder:
            for name, text in self._texts.items():
                if text is not None and _is_large(text):
                    self._write(folder, name, text.encode(), account)
            if self._theirs is not None:
                os.fchown(folder, account.uid, account.gid)

    def _write(self, folder: int, name: str, text: bytes, account: Account) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(f"{self._prefix}{name}", flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(text)
            if account.uid != os.geteuid():
                os.fchown(file.fileno(), account.uid, account.gid)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield the folder of the files. Raises `OSError`."""
        if self._theirs is None:
            yield self._at
            return
        descriptor = os.open(self._theirs, FOLDER, dir_fd=self._at)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def reported(self) -> bytes | None:
        """Return what the command left, None for nothing; more than is allowed is cut, so that it is too long.

        Whatever else stands there (a link, a pipe, somebody else's file) is as good as nothing that can be understood:
        the node may read what the command's account may not. Raises `OSError` if it can't be looked at now.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self._opened() as folder:
                descriptor = os.open(self._outcome, flags, dir_fd=folder)
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

    @property
    def is_theirs(self) -> bool:
        """Return whether the files lie in a folder of the account, where many more may take long to remove."""
        return self._theirs is not None

    def remove(self) -> None:
        """Take the files away, and the folder where it was made for them."""
        if self._theirs is not None:
            remove_at(self._at, self._theirs)
            return
        for file in (self._outcome, *(f"{self._prefix}{name}" for name in self._texts)):
            with suppress(OSError):
                os.unlink(file, dir_fd=self._at)


def _is_large(text: str) -> bool:
    return len(text.encode()) > MOST_IN_ENVIRONMENT


class Exchanges:
    """The folder of one node's exchanges, below that of all nodes of a state folder.

    The node holds a lock on it as long as it lives: the kernel drops it with the node, however that ends.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: Path | None = None
        self._lock: int | None = None
        self._others: list[OthersFolder] = []

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

    def open(self, task: AttemptTask, account: Account, own: Account) -> Exchange:
        """Make the place for an attempt's files: in this folder; for an account that can't get there, a new one.

        One folder for all, because a folder for each takes milliseconds to remove. Raises `Refused`; `OSError` if
        the machine lacks files, memory or room on its disk.
        """
        if self._folder is None or self._lock is None:
            raise Bug("the folder of exchanges was not made")
        exchange: Exchange | None = None
        try:
            exchange = self._placed(self._folder, self._lock, task, account, own)
            exchange.prepare(account)
        except OSError as fault:
            if exchange is not None:
                exchange.remove()
            if fault.errno in _LACKING:
                raise
            raise Refused(f"the files of this attempt can't be made: {fault}") from None
        return exchange

    def _placed(self, folder: Path, at: int, task: AttemptTask, account: Account, own: Account) -> Exchange:
        parent = text_of(task.parent_runs, joined=task.joined) if task.parent_runs else None
        if account.uid == own.uid:
            prefix = f"{task.run_id}.{task.attempt}."
            return Exchange(folder, at, prefix, task.payload, account.uid, parent=parent)
        try:
            others = self._others[-1] if self._others else self._made_for_others(folder)
            name = others.add()
        except FileNotFoundError:  # a cleaner of temporary folders took it
            others = self._made_for_others(folder)
            name = others.add()
        return Exchange(others.path, others.descriptor, "", task.payload, account.uid, theirs=name, parent=parent)

    def _made_for_others(self, folder: Path) -> OthersFolder:
        """Return the folder for all other users, with a note of it for the cleaning after a dead node.

        One that it replaces stays open: attempts may run whose files are reached by its descriptor.
        """
        others = OthersFolder()
        try:
            (folder / others.path.name).symlink_to(others.path)
        except OSError:
            others.remove()
            raise
        self._others.append(others)
        return others

    def remove(self) -> None:
        """Remove it: every attempt has ended."""
        for others in self._others:
            others.remove()
        self._others.clear()
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
                remove_dead(path.readlink())
            path.unlink(missing_ok=True)
        folder.rmdir()
