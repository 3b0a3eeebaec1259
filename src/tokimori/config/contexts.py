"""Contexts: nodes elsewhere, by name, to which the command line sends its requests. A file of the user."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidConfig, NotFound
from tokimori.model.words import check_word
from tokimori.ownership import user_id

FILE: Final = "contexts.json"
_PRIVATE = 0o600


class Context(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node's address, without its secret, and the file that holds that; None: the secret of the state folder.

    `cacert` is the file with the certificates that vouch for it; None: those of the machine.
    """

    url: str
    token_file: str | None = None
    cacert: str | None = None


class Contexts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All contexts by name, and the default one."""

    current: str | None = None
    contexts: dict[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return the context of that name. Raises `NotFound`."""
        check_word("context", name)
        if name not in self.contexts:
            allowed = ", ".join(sorted(self.contexts)) or "none: `tokimori context add NAME URL` adds one"
            raise NotFound(f"context: there is no {name!r}", field="context", value=name, allowed=allowed)
        return self.contexts[name]


def read_contexts(file: Path) -> Contexts:
    """Return the contexts in the file; none if there is no file. Raises `InvalidConfig`."""
    try:
        owner, text = file.stat().st_uid, file.read_bytes()
    except FileNotFoundError:
        return Contexts()
    except OSError as fault:
        raise InvalidConfig([f"{file}: can't be read: {fault.strerror}"]) from None
    if owner not in {0, user_id()}:
        raise InvalidConfig([f"{file}: it belongs to another user, who could so send your orders elsewhere: remove it"])
    try:
        return msgspec.json.decode(text, type=Contexts)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise InvalidConfig([f"{file}: {fault}: mend it, or remove it and add the contexts again"]) from None


def write_contexts(file: Path, contexts: Contexts) -> None:
    """Put the file in place as a whole. Raises `InvalidConfig`."""
    unnamed = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "wb") as written:
            written.write(msgspec.json.format(msgspec.json.encode(contexts, order="sorted")) + b"\n")
        unnamed.replace(file)
    except OSError as fault:
        with suppress(OSError):
            unnamed.unlink()
        raise InvalidConfig([f"{file}: can't be written: {fault.strerror}"]) from None
