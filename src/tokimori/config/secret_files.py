"""Secrets in files: `TOKIMORI_STORE_FILE` names one that holds what `TOKIMORI_STORE` would say.

Containers get their secrets so (a kubelet mounts a chain of links in a folder of mode 1777), and can change them.
"""

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tokimori.config.value import URLS
from tokimori.errors import InvalidInput
from tokimori.ownership import others_reach, owner_of, user_id

SUFFIX: Final = "_FILE"
KEYS: Final = "TOKIMORI_SECRETS_KEYS"
"""The variable with the keys of secrets, which is no setting."""
_MOST: Final = 64 * 1024
"""Bytes of a file."""
_MOST_LINKS: Final = 16
_ALLOWED: Final = (
    "a file of at most 64 KiB that belongs to root or to the user of the node, which nobody else may write, nor the "
    "links and folders on the way to it"
)


class FromFiles(NamedTuple):
    """Values of variables that files hold, by the names of the variables, and what is wrong with others."""

    values: Mapping[str, str] = {}
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def variables_with_files(names: Collection[str]) -> frozenset[str]:
    """Return the variables of the settings of these names that may be secrets: each may name a file instead."""
    secret = (name for name in names if name in URLS or name.endswith((".password", ".secret")))
    return frozenset({KEYS, *("TOKIMORI_" + name.upper().replace(".", "_") for name in secret)})


def read_files(environ: Mapping[str, str], variables: Collection[str]) -> FromFiles:
    """Return what the files hold that the environment names for these variables."""
    values, faults, warnings = dict[str, str](), list[str](), list[str]()
    for variable in sorted(variables):
        named = environ.get(variable + SUFFIX)
        if not named:
            continue
        if environ.get(variable):
            faults.append(f"{variable}: it and {variable}{SUFFIX} are both set; allowed: one of them")
            continue
        try:
            values[variable], readable = read_secret_file(variable + SUFFIX, Path(named))
            if readable:
                warnings.append(readable)
        except InvalidInput as fault:
            faults.append(f"{fault.message}; allowed: {fault.allowed}")
    return FromFiles(values, tuple(faults), tuple(warnings))


def read_secret_file(name: str, file: Path) -> tuple[str, str | None]:
    """Return the secret in a file, without the line's end, and a warning if others may read it.

    Raises `InvalidInput` for a file that is missing, empty, no text or too long, or that others may have written.
    """
    try:
        if fault := _foreign_link(file) or others_reach(file):
            raise _unfit(name, file, f"other users may have written it: {fault}")
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(_MOST + 1)
    except OSError as fault:
        raise _unfit(name, file, f"it can't be read: {fault.strerror}") from None
    if not stat.S_ISREG(mode) or len(content) > _MOST:
        raise _unfit(name, file, "it is no regular file" if len(content) <= _MOST else "it is too long")
    try:
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _unfit(name, file, "it is no UTF-8 text") from None
    if not text or "\n" in text.strip() or "\0" in text:
        raise _unfit(name, file, "it is empty" if not text else "it has several lines, or a NUL")
    readable = f"{name}: every user of this machine may read {file} (mode {stat.S_IMODE(mode):04o})"
    return text, readable if mode & stat.S_IROTH else None


def overridden(environ: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with these variables, without those that name files in place of them."""
    files = {name + SUFFIX for name in said}
    return {name: text for name, text in environ.items() if name not in files} | dict(said)


def _foreign_link(file: Path) -> str | None:
    """Return which link on the way is another user's: in a folder with the sticky bit everybody may make one."""
    here = Path(file.anchor or ".")
    parts, links = list(file.parts[1:] if file.anchor else file.parts), 0
    while parts:
        here = here / parts.pop(0)
        found = here.lstat()
        if not stat.S_ISLNK(found.st_mode):
            continue
        links += 1
        if links > _MOST_LINKS:
            return f"{here} is one of too many links"
        if found.st_uid not in (0, user_id()):
            return f"{here} is a link of {owner_of(found.st_uid)}"
        target = here.readlink()
        here = Path(target.anchor) if target.anchor else here.parent
        parts = [*(target.parts[1:] if target.anchor else target.parts), *parts]
    return None


def _unfit(name: str, file: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{name}: {file}: {why}", field=name, value=str(file), allowed=_ALLOWED)
