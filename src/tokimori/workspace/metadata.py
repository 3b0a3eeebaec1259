"""Metadata in a script's comment (PEP 723): its dependencies, and to us its schedule. Pure."""

import re
import tomllib
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidFile
from tokimori.service.arguments import JobArguments

_BLOCK = re.compile(r"^# /// script[ \t]*\n((?:^#(?: .*)?\n)+?)^# ///[ \t]*$", re.MULTILINE)
_ALLOWED: Final = "dependencies, requires-python, and below [tool.tokimori] schedule, description and terms of a job"


class TokimoriTable(Struct, frozen=True, kw_only=True):
    """`[tool.tokimori]`. `terms` are all others that it names."""

    schedule: str | None = None
    description: str | None = None
    terms: dict[str, Any] = {}


class _Tools(Struct, frozen=True, kw_only=True):
    tokimori: dict[str, Any] = {}


class Metadata(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Content of the comment."""

    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    tool: _Tools = field(default_factory=_Tools)

    @property
    def told(self) -> TokimoriTable:
        """Return our part."""
        said = dict(self.tool.tokimori)
        own: dict[str, Any] = {name: said.pop(name) for name in ("schedule", "description") if name in said}
        return msgspec.convert({**own, "terms": said}, TokimoriTable)


def read_metadata(text: str, where: str) -> Metadata:
    """Return a script's metadata; empty without such a comment. Raises `InvalidFile`."""
    blocks = _BLOCK.findall(text.replace("\r\n", "\n"))
    if len(blocks) > 1:
        raise InvalidFile(f"{where}: it has two blocks `# /// script`", field="script", allowed="one")
    if not blocks:
        return Metadata()
    toml = "".join(line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].splitlines(keepends=True))
    try:
        found = msgspec.convert(tomllib.loads(toml), Metadata)
        told = found.told  # read once here, where its faults have their place
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        message = f"{where}: the block `# /// script` can't be read: {fault}"
        raise InvalidFile(message, field="script", allowed=_ALLOWED) from None
    for name in told.terms:
        if name not in JobArguments.__annotations__:
            message = f"{where}: the block `# /// script` can't be read: a job has no {name!r}"
            raise InvalidFile(message, field=name, value=told.terms[name], allowed=_ALLOWED)
    return found
