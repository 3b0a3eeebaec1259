"""Jobs, and what they need, written as TOML, which `tokimori apply` reads. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tokimori.errors import Bug

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z", re.ASCII)
Named = Mapping[str, Mapping[str, Mapping[str, object]]]
"""Fields by name, and these by their table, such as `calendars`."""


def write_toml(
    jobs: Sequence[Mapping[str, object]], set_name: str | None = None, resources: Named = MappingProxyType({})
) -> str:
    """Return the jobs as tables `[[jobs]]`; fields may be texts, numbers, truth values, lists and mappings.

    `set_name` is the set that declares them. Resources are tables such as `[calendars.holidays]`.
    """
    top = [] if set_name is None else [f"set = {_text(set_name)}\n"]
    named = [
        _table(f"[{part}.{write_key(name)}]", fields)
        for part, each in resources.items()
        for name, fields in each.items()
    ]
    return "\n".join([*top, *named, *(_table("[[jobs]]", job) for job in jobs)])


def write_fields(fields: Mapping[str, object]) -> str:
    """Return the fields of one job, a line for each."""
    return "".join(f"{write_key(name)} = {_value(value)}\n" for name, value in fields.items())


def _table(head: str, fields: Mapping[str, object]) -> str:
    return f"{head}\n{write_fields(fields)}"


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            pairs = ", ".join(f"{write_key(str(name))} = {_value(each)}" for name, each in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case _:
            raise Bug(f"TOML has no form for a {type(value).__name__}")


def write_key(name: str) -> str:
    """Return the name as a key, in quotes if it has to be."""
    return name if _BARE_KEY.match(name) else _text(name)


def _text(text: str) -> str:
    """Return a basic string, as in JSON, which leaves only DEL unescaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
