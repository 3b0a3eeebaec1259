"""The settings of secrets, and the keys that they name."""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from tokimori.config.secret_files import KEYS, SUFFIX, read_secret_file
from tokimori.errors import InvalidInput, Refused, StoreUnavailable
from tokimori.model.secret import no_key
from tokimori.ownership import others_reach

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

VARIABLE: Final = KEYS
"""Variable with keys, separated by commas, which come before those of the file."""
_ALLOWED: Final = "keys as `tokimori secret key` writes them, one a line"
_MOST: Final = 64 * 1024
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of a passing shortage of this machine, not of the file."""


class SecretsSettings(Struct, frozen=True, kw_only=True):
    """Secrets of jobs."""

    key_file: Annotated[
        Path | None,
        Meta(
            description="A file with the keys that encrypt secrets, one a line: the first encrypts, all decrypt. It is"
            " for the user of the node alone."
        ),
    ] = None


class Keyring:
    """Cipher that encrypts with the first key, and decrypts with any: AES-128-CBC with HMAC-SHA-256 (Fernet).

    The file is read each time, so that a running node knows a new key at once.
    """

    def __init__(self, file: Path | None, keys: str = "", keys_file: Path | None = None) -> None:
        self._file = file
        self._keys, self._keys_file = keys, keys_file

    def seal(self, content: bytes) -> str:
        """See `tokimori.ports.documents.Cipher`."""
        return self._ciphers().encrypt(content).decode()

    def open(self, sealed: str) -> bytes:
        """See `tokimori.ports.documents.Cipher`."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415  nodes without secrets need it not

        try:
            return self._ciphers().decrypt(sealed.encode())
        except InvalidToken:
            message = "none of the keys here opens it: add the key with which it was set, below the first one"
            raise Refused(message, field="secrets.key_file", allowed=_ALLOWED) from None

    def _ciphers(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415

        keys = self._keys if self._keys_file is None else read_secret_file(VARIABLE + SUFFIX, self._keys_file)[0]
        texts = [*keys.replace(",", " ").split(), *([] if self._file is None else read_keys(self._file))]
        if not texts:
            raise no_key()
        try:
            return MultiFernet([Fernet(text) for text in texts])
        except ValueError:
            where = VARIABLE if self._file is None else f"{self._file} or {VARIABLE}"
            message = f"secrets: {where} holds what is no key"
            raise Refused(message, field="secrets.key_file", allowed=_ALLOWED) from None


def keyring_of(settings: SecretsSettings, environ: Mapping[str, str]) -> Keyring:
    """Return the keys of this process. Nothing is read yet. Raises `InvalidInput` if they are said twice."""
    text, named = environ.get(VARIABLE, ""), environ.get(VARIABLE + SUFFIX)
    if text and named:
        message = f"{VARIABLE}: it and {VARIABLE}{SUFFIX} are both set"
        raise InvalidInput(message, field=VARIABLE, allowed="one of them")
    return Keyring(settings.key_file, text, Path(named) if named else None)


def read_keys(file: Path) -> list[str]:
    """Return the keys in the file. Raises `Refused` if it is missing, or if others may read or change it.

    Raises `StoreUnavailable` if this machine can open no file now.
    """
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
            _check(file, os.fstat(opened.fileno()))
            content = opened.read(_MOST).decode()
    except (OSError, UnicodeDecodeError) as fault:
        if isinstance(fault, OSError) and fault.errno in _PASSING:
            raise StoreUnavailable(f"secrets: {file} can't be read now: {fault.strerror}") from None
        why = fault.strerror if isinstance(fault, OSError) else "it is no text"
        message = f"{file} can't be read: {why}; `tokimori secret key {quote(str(file))}` makes a new one"
        raise _refused(file, message, "a file of this user") from None
    return content.split()


def add_key(file: Path) -> int:
    """Put a new key before those in the file, which is made if it is missing; return their number.

    Raises as `read_keys` does.
    """
    from cryptography.fernet import Fernet  # noqa: PLC0415

    keys = [Fernet.generate_key().decode(), *(read_keys(file) if file.exists() else [])]
    fresh = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
    try:
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "w") as written:
            written.write("".join(f"{key}\n" for key in keys))
            written.flush()
            os.fsync(opened)
        fresh.replace(file)
    except OSError as fault:
        raise _refused(file, f"{file} can't be written: {fault.strerror}", "a file in a folder of this user") from None
    return len(keys)


def _check(file: Path, found: os.stat_result) -> None:
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        mended = f"`chmod 600 {quote(str(file))}`, then `tokimori secret key` and `tokimori secret rotate`"
        raise _refused(file, f"others may use {file} (mode {mode:04o}) and may know it: {mended}", "mode 0600")
    if reached := others_reach(file):
        raise _refused(file, reached, "a file, in folders, that only this user and root may write")


def _refused(file: Path, message: str, allowed: str) -> Refused:
    return Refused(f"secrets.key_file: {message}", field="secrets.key_file", value=str(file), allowed=allowed)
