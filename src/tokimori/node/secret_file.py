"""Secret of a node: a file in its state folder, readable by its user only. It gives all rights."""

import logging
import os
import pwd
import re
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from tokimori.clock import Clock
from tokimori.config.http import HttpSettings
from tokimori.config.secret_files import read_secret_file
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.ownership import state_of

log = logging.getLogger(__name__)

NAME = "secret"
"""The name of the file."""
ALLOWED = "43 to 512 of A-Z a-z 0-9 _ -, on one line"
HOLDS = 300
"""Seconds for which the secret before lets in."""
_BYTES = 32
_MOST = 512
_SECRET = re.compile(rf"[A-Za-z0-9_-]{{43,{_MOST}}}\Z", re.ASCII)


class DoorSecret:
    """Secret of the HTTP server.

    After its file has changed the old secret holds for five more minutes, so that its holders can go on. The file is
    read once a second at most.
    """

    def __init__(self, http: HttpSettings, state_dir: Path, clock: Clock) -> None:
        self._file, self._clock = http.secret_file, clock
        self._now = http.secret or (make_secret(state_dir) if self._file is None else self._read(self._file))
        self._before, self._until, self._looked = "", 0.0, clock.monotonic()
        self._state = None if self._file is None else state_of(self._file)

    def __call__(self) -> Sequence[str]:
        """Return the secrets that let in, the newest first."""
        now = self._clock.monotonic()
        if self._file is not None and now >= self._looked + 1:
            self._looked = now
            self._look_at(self._file)
        return (self._now, self._before) if now < self._until else (self._now,)

    def _look_at(self, file: Path) -> None:
        if (state := state_of(file)) == self._state:
            return
        self._state = state
        try:
            found = self._read(file)
        except (Refused, InvalidInput) as fault:
            log.warning("the previous secret stays in use: %s", fault)
            return
        if found != self._now:
            self._now, self._before, self._until = found, self._now, self._clock.monotonic() + HOLDS
            log.info("http.secret_file has changed: the previous secret is accepted for another %d s", HOLDS)

    def _read(self, file: Path) -> str:
        secret, readable = read_secret_file("http.secret_file", file)
        if readable:
            log.warning("%s", readable)
        if not _SECRET.match(secret):
            raise _refused(file, f"{file} holds no secret", ALLOWED)
        return secret


def secret_of(http: HttpSettings, state_dir: Path) -> str:
    """Return the secret of nodes with these settings and this state folder. Raises as `read_secret` does."""
    if http.secret is not None:
        return http.secret
    return read_secret(state_dir) if http.secret_file is None else read_secret_file("http.secret", http.secret_file)[0]


def make_secret(state_dir: Path) -> str:
    """Return the secret of this state folder, made if there is none: nodes that start together share it.

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
    """Return the secret of this state folder. Raises `NotFound`, and `Refused` if others can read it or wrote it."""
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
