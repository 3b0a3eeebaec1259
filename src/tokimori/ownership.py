"""Owners of files: users, other than this process's and root, who could change or replace one."""

import os
import stat
import time
from pathlib import Path

from tokimori.errors import StoreError

PRIVATE = 0o600
_PATIENCE = 3.0
"""Seconds; more than any transaction of ours takes."""
_ONE_USER = "an SQLite store is for one user: run as that one, or let several share a server such as PostgreSQL"


def user_id() -> int:
    """Return the user as whom this process acts; -1 on a system that has no such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


def others_reach(path: Path, *, most: int | None = None) -> str | None:
    """Return why somebody else may have made what stands at this path; None: it is ours or root's, and so is its way.

    In a folder with the sticky bit (`/tmp`) nobody moves what is not his. `most`: look at so many folders only, from
    the path upwards. Raises `OSError` if there is no such path.
    """
    real = path.resolve(strict=True)
    for place in (real, *real.parents)[:most]:
        if fault := _reached(place, place.stat()):
            return fault
    return None


def others_add(folder: Path) -> str | None:
    """Return why somebody else may put a file into this folder; None: nobody but root can. Raises `OSError`."""
    found = folder.stat()
    if found.st_mode & stat.S_ISVTX and found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        return f"others may add files to {folder} (mode {stat.S_IMODE(found.st_mode):04o})"
    return others_reach(folder)


def _reached(place: Path, found: os.stat_result) -> str | None:
    if found.st_uid not in {0, user_id()}:
        them, us = owner_of(found.st_uid), owner_of(user_id())
        return f"{place} belongs to {them}: run this as {them}, or `chown {us} {place}`"
    if found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode):
        return None
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid != 0):
        return f"{place} may be written by others (mode {stat.S_IMODE(found.st_mode):04o}): `chmod go-w {place}`"
    return None


def owner_of(uid: int) -> str:
    """Return the name of a user, else his number."""
    import pwd  # noqa: PLC0415  programs that only ask for help need it not

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def keep_private(path: str, *beside: str) -> None:
    """Make the file where it is missing, and let nobody but its owner read it, nor what stands beside it (`-wal`).

    SQLite gives what it puts beside a file the file's mode. Raises `StoreError` if others could put their own there.
    """
    folder = Path(path).parent
    try:
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise StoreError(f"store {path}: everybody may write to its folder: chmod o-w {folder}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        except FileExistsError:
            pass
        owner = _mended(path)
        if owner is not None and owner != user_id() != 0:
            raise StoreError(f"store {path} belongs to {owner_of(owner)}; {_ONE_USER}")
        for each in [path + suffix for suffix in beside]:
            if _mended(each) not in {owner, user_id(), 0, None}:
                raise StoreError(f"store: {each} belongs to another user: have it removed, or name another folder")
    except OSError:
        pass  # opening it gives the error


def _mended(path: str) -> int | None:
    """Return the owner of the file, which is for him alone by now. Not opened: closing it would drop SQLite's locks."""
    try:
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(found)
        if status.st_uid == user_id() and stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
            Path(f"/proc/self/fd/{found}").chmod(PRIVATE)
        return status.st_uid
    finally:
        os.close(found)


def open_private(path: str, like: str) -> int:
    """Open a file that only the owner of the other one can open, made if it is missing. Raises `StoreError`.

    One that others could open is replaced: they may have it open, and hold a lock on it as long as they like.
    """
    try:
        owner = os.stat(like).st_uid  # noqa: PTH116
        while True:
            opened = _opened(path)
            found = os.fstat(opened)
            if found.st_uid == owner and not found.st_mode & 0o077:
                return opened
            try:
                _replace(path, opened, owner)
            finally:
                os.close(opened)
    except OSError as fault:
        mend = "make its directory, or let this user write there"
        raise StoreError(f"store: {path} can't be opened ({fault.strerror}): {mend}") from None


def _opened(path: str, how: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how, PRIVATE)


def _replace(path: str, old: int, owner: int) -> None:
    """Put a new, private file in place of this one at once: never is there none.

    This waits for a process of ours that has locked the old one; that then moves to the new one (`still_private`).
    """
    _lock_for_a_while(old)
    fresh = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    opened = _opened(fresh, os.O_EXCL)
    try:
        if owner != user_id():
            os.fchown(opened, owner, -1)
        os.rename(fresh, path)  # noqa: PTH104
    except OSError:
        os.unlink(fresh)  # noqa: PTH108
        raise
    finally:
        os.close(opened)


def _lock_for_a_while(descriptor: int) -> None:
    """Lock the file. Wait a few seconds at most: processes of ours hold the lock for less."""
    import fcntl  # noqa: PLC0415  clients on other systems have none

    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.005)


def still_private(opened: int, path: str, like: str) -> int:
    """Return the open file, if it still is the one at the path; else the one that is there now, and this one is closed.

    If the other file is gone too it stays: nobody comes any more. Raises `StoreError`.
    """
    try:
        if os.path.samestat(os.fstat(opened), os.stat(path)):  # noqa: PTH116
            return opened
    except FileNotFoundError:
        if not Path(like).exists():
            return opened
    now = open_private(path, like)
    os.close(opened)
    return now


def state_of(file: Path) -> tuple[int, ...] | None:
    """Return what changes when a file does, or the end of a chain of links; None: it can't be seen."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
