"""Misfits of a payload: why, where, and the value there."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tokimori.apps.json_text import clean

_AT = re.compile(r"(.*) - at `(key in )?\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_ANY = "[...]"
"""How msgspec writes a key of a mapping, whichever it is."""
MOST_SHOWN = 200
"""Characters of a value that a message shows."""


class Misfit(NamedTuple):
    """`why` names the path and the value; `value` is the latter, None where the payload as a whole does not fit."""

    why: str
    value: str | None


def misfit_of(fault: Exception, given: object) -> Misfit:
    """Return the misfit in the given JSON, from an error of msgspec, or of a model within."""
    said = _AT.fullmatch(str(fault))
    if said is None:
        return Misfit(str(fault), None)
    why, is_key, path = said.groups()
    while (within := _AT.fullmatch(why)) is not None:  # what was read by itself says the place in it first
        why, is_key, path = within[1], within[2], path + within[3]
    if (first := _first_of_model(fault)) is not None:
        why, inner = first
        path += "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in inner)
    shown = _shown(given, _STEP.findall(path.partition(_ANY)[0]))
    return Misfit(f"{why} - at `{is_key or ''}${path}`: {shown}", shown)


def _first_of_model(fault: Exception) -> tuple[str, Sequence[str | int]] | None:
    """Return pydantic's first error and its place in the model: `loc` ends with what is missing, if something is."""
    errors = getattr(fault.__cause__, "errors", None)
    if errors is None:
        return None
    first = errors()[0]
    return str(first["msg"]), [*first["loc"]]


def _shown(given: Any, steps: Sequence[tuple[str, str]]) -> str:
    """Return the JSON at these steps, each a name or an index; of what is not there, that around it."""
    for name, index in steps:
        try:
            given = given[name or int(index)]
        except (LookupError, TypeError):
            break
    text = clean(json.dumps(given, ensure_ascii=False))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
