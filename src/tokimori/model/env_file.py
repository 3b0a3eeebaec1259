"""The `.env` of a task: lines `NAME=value`. Pure."""

import re
from pathlib import PurePath
from typing import Final

from tokimori.errors import InvalidFile

LARGEST: Final = 64 * 1024
"""Bytes."""
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)\Z", re.ASCII)


def env_files_of(name: str) -> tuple[PurePath, PurePath]:
    """Return the files in the folder of tasks that may hold a task's variables: in its folder, and beside its file."""
    return PurePath(name, ".env"), PurePath(f"{name}.env")


def read_env(content: bytes, where: str) -> dict[str, str]:
    """Return the variables; empty lines and those that begin with # say none. Quotes around a value are taken off.

    Raises `InvalidFile`, with the line where there is one.
    """
    if len(content) > LARGEST:
        raise InvalidFile(f"{where}: it is too large", field="env", allowed=f"at most {LARGEST} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidFile(f"{where}: is not UTF-8 text", field="env", allowed="UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        said = _LINE.match(stripped)
        if said is None or "\0" in stripped:
            raise InvalidFile(
                f"{where}:{number}: this is no variable",
                field="env",
                value=stripped.partition("=")[0],
                allowed="NAME=value",
            )
        found[said[1]] = _unquoted(said[2])
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
