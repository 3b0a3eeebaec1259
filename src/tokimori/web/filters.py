"""Filters of lists: words, and `name:value` that people type into one field. All of them stand in the address."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tokimori.web.screen import Moved
from tokimori.web.visit import Visit

_TYPED = re.compile(r"([a-z_]+):(\S+)")
PAGES = ("after", "before", "q")
"""Parameters that begin anew with another filter."""


class Chip(NamedTuple):
    """A filter that holds, and the address without it."""

    says: str
    without: str


def typed(visit: Visit, names: Sequence[str]) -> Moved | None:
    """Return the address in which a typed `name:value` is a filter; None if none was typed.

    It replaces the value of that name, but is added to labels.
    """
    q = visit.one("q") or ""
    found = [(name, value) for name, value in _TYPED.findall(q) if name in names]
    if not found:
        return None
    rest = " ".join(_TYPED.sub(lambda match: "" if match[1] in names else match[0], q).split())
    changes: dict[str, list[str]] = {}
    for name, value in found:
        changes.setdefault(name, visit.all(name) if name == "label" else []).append(value)
    return Moved(visit.link(**{**dict.fromkeys(PAGES), "q": rest or None, **changes}))


def chips(visit: Visit, names: Sequence[str]) -> Sequence[Chip]:
    """Return the filters of these names that hold."""
    return [
        Chip(
            f"{name}: {value}",
            visit.link(**{"after": None, "before": None, name: [each for each in visit.all(name) if each != value]}),
        )
        for name in names
        for value in visit.all(name)
    ]


def words(visit: Visit) -> Sequence[str]:
    """Return the words that are looked for."""
    return (visit.one("q") or "").casefold().split()
