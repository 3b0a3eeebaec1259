"""Files of other systems as values: JSON, TOML."""

import tomllib
from collections.abc import Mapping

import msgspec

from tokimori.errors import InvalidFile


def read_mapping(text: str, file: str) -> Mapping[str, object]:
    """The object or table that a file holds: TOML if its name ends so, else JSON. Raises `InvalidFile`."""
    try:
        found: object = tomllib.loads(text) if file.lower().endswith(".toml") else msgspec.json.decode(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as fault:
        kind = "TOML" if file.lower().endswith(".toml") else "JSON"
        raise InvalidFile(f"{file}: not {kind}: {fault}", field="source", value=file, allowed=kind) from None
    if isinstance(found, Mapping):
        return found
    raise InvalidFile(f"{file}: it holds no object", field="source", value=file, allowed="an object with names")
