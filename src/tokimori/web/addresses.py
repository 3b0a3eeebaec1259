"""Addresses within the page. All are below the prefix of the door, which templates put before them."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode

from tokimori.model.words import DOTS


def path(*parts: str) -> str | None:
    """Return the path of these parts; None if it would lead elsewhere, for a name that older versions took."""
    return None if DOTS.intersection(parts) else "/".join(("", *(quote(part, safe="") for part in parts)))


def address(where: str, values: Iterable[tuple[str, object]]) -> str:
    """Return a path with these parameters; those that are None or empty are left out."""
    query = urlencode([(name, value) for name, value in values if value not in (None, "")])
    return f"{where}?{query}" if query else where
