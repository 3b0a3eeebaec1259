"""Addresses within the page. All are below the prefix of the door, which templates put before them."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode


def path(*parts: str) -> str:
    """Return the path of these parts."""
    return "/".join(("", *(quote(part, safe="") for part in parts)))


def address(where: str, values: Iterable[tuple[str, object]]) -> str:
    """Return a path with these parameters; those that are None or empty are left out."""
    query = urlencode([(name, value) for name, value in values if value not in (None, "")])
    return f"{where}?{query}" if query else where
