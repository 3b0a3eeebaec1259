"""The command that adds a job as it is, for people who copy one. Pure."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tokimori.model.job_fields import BOTH_WAYS, FIELDS, SPELLINGS
from tokimori.schedules.stamp import seconds_in

LONGEST: Final = 4_096
"""Characters of a command that people read."""
_MARKS: Final[Mapping[str, str]] = {"env": "=", "labels": "=", "headers": ": "}


def add_command(job_id: str, fields: Mapping[str, object]) -> str | None:
    """Return the `tokimori job add` that gives a job these fields, an option a line.

    None if no options give exactly these, or if the command would be too long to read.
    """
    groups = {path.partition(".")[0] for path in FIELDS if "." in path}
    flat = {name: value for name, value in fields.items() if name not in groups}
    for group in groups & fields.keys():
        inner = fields[group]
        if not isinstance(inner, Mapping) or not inner:
            return None
        flat |= {f"{group}.{name}": value for name, value in inner.items()}
    if not flat.keys() <= FIELDS.keys():
        return None
    argv = flat.pop("command") if isinstance(flat.get("command"), list | tuple) else ()
    options = [_options(path, flat[path]) for path in FIELDS if path in flat]
    if not all(options):
        return None
    lines = [["tokimori", "job", "add", job_id], *(words for each in options for words in each), *_program(argv)]
    text = " \\\n  ".join(map(shlex.join, lines))
    return text if len(text) <= LONGEST else None


def _program(argv: object) -> Iterator[Sequence[str]]:
    if isinstance(argv, list | tuple) and argv:
        yield ["--", *map(str, argv)]


def _options(path: str, value: object) -> Sequence[Sequence[str]]:
    """Return the options that say the value, each as its words; none if they can't say it."""
    option = SPELLINGS[path]
    if isinstance(value, bool):
        no = [[f"--no-{option[2:]}"]] if path in BOTH_WAYS else []
        return [[option]] if value else no
    texts = list(_texts(path, value))
    if None in texts:
        return []
    given = (text for text in texts if text is not None)
    return [[f"{option}={text}"] if text[:1] == "-" else [option, text] for text in given]


def _texts(path: str, value: object) -> Iterable[str | None]:
    """Yield a text for each time that the option is given; None for what it can't say."""
    match value:
        case str():
            yield value
        case int() | float():
            yield _number(path, value)
        case Mapping() if path == "notify":
            for event, names in value.items():
                yield from (f"{event}={name}" if "=" not in name else None for name in names)
        case Mapping() if path in _MARKS:
            yield from (_pair(_MARKS[path], name, each) for name, each in value.items())
        case list() | tuple() if path == "parents":
            yield from (f"{each['job']}={each.get('on', 'success')}" for each in value)
        case list() | tuple():
            yield from map(str, value)
        case _:
            yield None


def _pair(mark: str, name: str, value: str) -> str | None:
    is_plain = mark == "=" or (name, value) == (name.strip(), value.strip())
    return f"{name}{mark}{value}" if name and mark.strip() not in name and is_plain else None


def _number(path: str, value: float) -> str | None:
    """Return the number, with a unit if it is seconds; None for one with more digits than an option takes."""
    if FIELDS[path].unit != "seconds":
        return repr(value)
    digits = f"{value:.9f}".rstrip("0").rstrip(".")
    return next((text for text in (f"{digits}s", digits) if seconds_in(text) == value), None)
