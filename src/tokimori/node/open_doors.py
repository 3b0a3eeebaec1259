"""Open doors of a state folder's nodes: a file each, locked as long as the door is open."""

import fcntl
import logging
import os
import secrets
import ssl
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import DecodeError, Struct, json

from tokimori.api.secret import COMMAND, PARAMETER
from tokimori.executors.keeper.kernel import boot_identity, see

log = logging.getLogger(__name__)

NAME = "doors"
"""The name of the folder."""
_MOST = 4_096


class Door(NamedTuple):
    """An open door: its address, and the process that answers there, if it is in the same container."""

    address: str
    pid: int | None


@contextmanager
def noted_door(state_dir: Path, address: str) -> Iterator[None]:
    """Let `open_doors` find the address while this lasts. A dead process leaves an unlocked file."""
    try:
        opened, file = _note(state_dir / NAME, address)
    except OSError as fault:
        log.warning("`%s` will not find this node: %s", COMMAND, fault)
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()
        os.close(opened)


def _note(folder: Path, address: str) -> tuple[int, Path]:
    """Return a locked file that holds the address. An unlocked file means that its process has ended."""
    folder.mkdir(mode=0o700, exist_ok=True)
    name = secrets.token_hex(8)
    unnamed, file = folder / f".{name}", folder / name
    opened = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(opened, f"{address}\n{os.getpid()}\n{boot_identity()}\n".encode())
        unnamed.rename(file)
    except OSError:
        os.close(opened)
        unnamed.unlink(missing_ok=True)
        raise
    return opened, file


def entry(address: str, secret: str) -> str:
    """Return the address that logs a browser in."""
    return f"{address}?{PARAMETER}={secret}"


def door_lines(address: str, secret: str, *, with_secret: bool) -> Sequence[str]:
    """Return the lines in which a node says its page's address to the user who has started it."""
    if with_secret:
        return (f"Its page is at {entry(address, secret)}",)
    return (f"Its page is at {address}", f"`{COMMAND}` prints the address that logs a browser in.")


def open_doors(state_dir: Path) -> Sequence[str]:
    """Return the addresses of the open doors, in order; the files of dead processes are removed."""
    return [door.address for door in doors(state_dir)]


def doors(state_dir: Path) -> Sequence[Door]:
    """Return the open doors, in order of their addresses; the files of dead processes are removed."""
    with suppress(FileNotFoundError, NotADirectoryError):
        files = [file for file in (state_dir / NAME).iterdir() if not file.name.startswith(".")]
        return sorted((door for file in files if (door := _door(file)) is not None), key=lambda door: door.address)
    return ()


def _door(file: Path) -> Door | None:
    """Return the door in a locked file, unless other users may have written it."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return None
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _door_in(os.read(opened, _MOST).decode(errors="replace"))
    finally:
        os.close(opened)
    file.unlink(missing_ok=True)
    return None


def _door_in(text: str) -> Door | None:
    """Return the door in a locked file's text.

    A killed process ends before its lock does: its threads end one by one, and a child that has not called exec yet
    shares the lock. In another pid namespace only the lock counts.
    """
    address, pid, boot, *_ = [*text.splitlines(), "", "", ""]
    if not pid.isdecimal() or boot != boot_identity():
        return Door(address, None)
    return Door(address, int(pid)) if see(int(pid)) is not None else None


READY, SILENT = "ready", "its HTTP server does not answer"
_PATIENCE = 5.0
"""Seconds that a door has to answer."""


class _Readiness(Struct):
    status: str


def readiness(address: str) -> str:
    """Return `ready`, or why the node at that address is not; words that begin with `SILENT`: no answer."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port
    door = HTTPConnection(host, port, timeout=_PATIENCE)
    if parts.scheme == "https":  # the certificate is for the names by which others come; nothing secret is sent
        door = HTTPSConnection(host, port, timeout=_PATIENCE, context=ssl._create_unverified_context())  # noqa: S323
    try:
        door.request("GET", f"{parts.path.rstrip('/')}/readyz")
        return json.decode(door.getresponse().read(4096), type=_Readiness).status
    except (OSError, HTTPException, DecodeError) as fault:
        return f"{SILENT}: {fault}"
    finally:
        door.close()
