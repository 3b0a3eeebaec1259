"""`-o template='{{ id }} {{ state }}'`: a line for each thing, with what JSON would say of it. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import to_builtins

from tokimori.errors import InvalidInput
from tokimori.service.views.outside import as_json, as_plain

ALLOWED: Final = "such as template='{{ id }} {{ state }}', with the names that --json shows; below them with a dot"
_FIELD = re.compile(r"\{\{\s*([^\s{}]+)\s*\}\}")
_NOTHING = "-"


def check_template(template: str) -> str:
    """Return the template. Raises `InvalidInput`."""
    rest = _FIELD.sub("", template)
    if rest == template or "{{" in rest or "}}" in rest:
        message = f"output: {template!r} names no field" if rest == template else f"output: {template!r} has odd braces"
        raise InvalidInput(message, field="output", value=template, allowed=ALLOWED)
    return template


def rendered(template: str, value: object) -> tuple[list[str], list[str]]:
    """Return a line for each member of a list, else one; and a sentence for each field that none of them has."""
    found = to_builtins(value, enc_hook=as_plain)
    members: Sequence[object] = found if isinstance(found, list | tuple) else [found]
    return [_line(template, each) for each in members], list(_missing(template, members))


def _line(template: str, member: object) -> str:
    return _FIELD.sub(lambda field: _text(_at(member, field[1])), template)


def _missing(template: str, members: Sequence[object]) -> Iterator[str]:
    known = {name for each in members if isinstance(each, dict) for name in each}
    for field in dict.fromkeys(_FIELD.findall(template)):
        if members and field.partition(".")[0] not in known:
            yield f"output: nothing here has a field {field!r}; there are {', '.join(sorted(known)) or 'none'}"


def _at(value: object, path: str) -> object:
    """Return the value at the path; None if it has none."""
    for name in path.split("."):
        match value:
            case dict():
                value = value.get(name)
            case list() if name.isdecimal() and name.isascii() and int(name[:9]) < len(value):
                value = value[int(name[:9])]
            case _:
                return None
    return value


def _text(value: object) -> str:
    match value:
        case None:
            return _NOTHING
        case str():
            return value
        case _:
            return as_json(value).decode()
