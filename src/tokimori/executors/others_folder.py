"""Files for commands of other users, which can't get into the state folder: below a folder that is the node's.

Whatever the other users put there, the node reaches it by descriptors only, follows no link, and does with it nothing
that they could not do themselves. docs/decisions/0028 says how.
"""

import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

from tokimori.errors import Refused
from tokimori.ownership import others_reach

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_AT_ONCE = 1_000
"""Files of one attempt that are removed on the loop; what is beyond goes with the node's folder."""
_MOST = 100_000
_DEEPEST = 50
_PASSABLE = 0o711


class OthersFolder:
    """The folder of this node: anybody passes through it, and only the node changes what it holds.

    Raises `Refused` where others could put another folder in its place, and `OSError`.
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
        """Take it away, with what is left in it."""
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
    return _remove(folder, name, None, most, _DEEPEST)


def _empty(folder: int) -> None:
    most = _MOST
    for name in os.listdir(folder):
        most = remove_at(folder, name, most)


def _remove(folder: int, name: str, owner: int | None, most: int, depth: int) -> int:
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
            most = _remove(folder, name, owner, most, depth)
    return most
