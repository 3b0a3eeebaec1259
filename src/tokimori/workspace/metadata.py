"""What a script says of itself in a comment (PEP 723): what it depends on, and to us its schedule. Pure."""

import re
import tomllib
from typing import Final

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidFile

_BLOCK = re.compile(r"^# /// script[ \t]*\n((?:^#(?: .*)?\n)+?)^# ///[ \t]*$", re.MULTILINE)
_ALLOWED: Final = "dependencies, requires-python, and below [tool.tokimori] schedule and description"


class Told(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[tool.tokimori]`."""

    schedule: str | None = None
    description: str | None = None


class _Tools(Struct, frozen=True, kw_only=True):
    tokimori: Told = Told()


class Metadata(Struct, frozen=True, kw_only=True, rename="kebab"):
    """What stands in the comment."""

    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    tool: _Tools = field(default_factory=_Tools)

    @property
    def told(self) -> Told:
        """What is said for us."""
        return self.tool.tokimori


def read_metadata(text: str, where: str) -> Metadata:
    """What a script says of itself; nothing where there is no such comment. Raises `InvalidFile`."""
    blocks = _BLOCK.findall(text.replace("\r\n", "\n"))
    if len(blocks) > 1:
        raise InvalidFile(f"{where}: it has two blocks `# /// script`", field="script", allowed="one")
    if not blocks:
        return Metadata()
    toml = "".join(line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].splitlines(keepends=True))
    try:
        return msgspec.convert(tomllib.loads(toml), Metadata)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        message = f"{where}: the block `# /// script` can't be read: {fault}"
        raise InvalidFile(message, field="script", allowed=_ALLOWED) from None
