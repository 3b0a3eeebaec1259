"""Secret of a node: a file in its state folder, readable by its user only. It gives all rights."""

import os
import pwd
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from shlex import quote

from tokimori.errors import NotFound, Refused

NAME = "secret"
"""The name of the file."""
ALLOWED = "43 to 512 of A-Z a-z 0-9 _ -, on one line"
_BYTES = 32
_MOST = 512
_SECRET = re.compile(rf"[A-Za-z0-9_-]{{43,{_MOST}}}\Z", re.ASCII)


def make_secret(state_dir: Path) -> str:
    """Return the secret of this state folder, made if there is none: nodes that start at the same time have the same
    one.

    Raises `Refused` as `read_secret` does, and if the file can't be made.
    """
    file = state_dir / NAME
    try:
        _make(file)
    except FileExistsError:
        pass
    except OSError as fault:
        raise _refused(file, f"{file} can't be made: {fault.strerror}", "a folder that can be written") from None
    return read_secret(state_dir)


def read_secret(state_dir: Path) -> str:
    """Return the secret of this state folder. Raises `NotFound`, and `Refused` if other users can read or have written
    it.
    """
    file = state_dir / NAME
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
            _check(file, os.fstat(opened.fileno()))
            content = opened.read(_MOST + 2)
    except FileNotFoundError:
        message = f"{file} does not exist: the first `tokimori serve` with this state_dir makes it"
        raise NotFound(message, field="secret", value=str(file), allowed="the state folder of a node") from None
    except OSError as fault:
        raise _refused(file, f"{file} can't be read: {fault.strerror}", "a file of this user, no link") from None
    secret = content.decode("latin-1").removesuffix("\n")
    if not _SECRET.match(secret):
        raise _refused(file, f"{file} holds no secret{_mended(file)}", ALLOWED)
    return secret


def _make(file: Path) -> None:
    """Make the file as a whole or not at all: it gets its name once written, and replaces no other one."""
    unnamed = file.with_name(f".{NAME}.{secrets.token_hex(8)}")
    opened = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(opened, "w") as written:
            os.fchmod(opened, 0o600)  # whatever the umask
            written.write(f"{secrets.token_urlsafe(_BYTES)}\n")
            written.flush()
            os.fsync(opened)
        os.link(unnamed, file)
    finally:
        unnamed.unlink()


def _check(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(file, f"{file} is no regular file{_mended(file)}", "a regular file")
    if found.st_uid != os.geteuid():
        message = f"{file} belongs to {_user(found.st_uid)}, not to {_user(os.geteuid())}{_mended(file)}"
        raise _refused(file, message, "a file of this user")
    if found.st_mode & 0o077:
        message = f"others may use {file} (mode {stat.S_IMODE(found.st_mode):04o}) and may know it{_mended(file)}"
        raise _refused(file, message, "mode 0600")


def _mended(file: Path) -> str:
    return f": remove it with `rm {quote(str(file))}`, and the next `tokimori serve` makes another"


def _refused(file: Path, message: str, allowed: str) -> Refused:
    return Refused(f"secret: {message}", field="secret", value=str(file), allowed=allowed)


def _user(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"
