"""Unit files of systemd, read line by line, as systemd.syntax(7) describes them. Pure.

A line is `Key=value`; a key may come more than once. A backslash at the end joins the next line, and comments between
joined lines are left out. An empty value forgets what was said of the key before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from tokimori.errors import InvalidFile

_COMMENTS = ("#", ";")
_FLAGS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}


class Assignment(NamedTuple):
    """A line, and where it is: `file:line`."""

    place: str
    key: str
    value: str

    def refused(self, why: str, allowed: str) -> InvalidFile:
        """Return the error of a line that can't be moved. Its field is the place."""
        message = f"{self.key}={self.value}: {why}"
        return InvalidFile(message, field=self.place, value=self.value, allowed=allowed)

    def flag(self) -> bool:
        """Return whether it is true. Raises `InvalidFile`."""
        if (found := _FLAGS.get(self.value.lower())) is None:
            raise self.refused("it is neither true nor false", "yes or no")
        return found


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its name, and its lines by section and key."""

    name: str
    sections: Mapping[str, Mapping[str, Sequence[Assignment]]]

    def all(self, section: str, key: str) -> Sequence[Assignment]:
        """Return the values of a key in order; an empty value forgets what is before it."""
        return self.sections.get(section, {}).get(key, ())

    def last(self, section: str, key: str) -> Assignment | None:
        """Return the value of a key that has one."""
        found = self.all(section, key)
        return found[-1] if found else None

    def keys(self, section: str) -> Sequence[str]:
        """Return the keys of a section that are set, each once."""
        return tuple(key for key, lines in self.sections.get(section, {}).items() if lines)


def file_of(name: str, files: Mapping[str, str]) -> str | None:
    """Return the file of a unit: its own one, or that of its template; None where there is none."""
    stem, dot, kind = name.rpartition(".")
    prefix, at, _ = stem.partition("@")
    return next((file for file in (name, f"{prefix}{at}{dot}{kind}") if file in files), None)


def read_unit(name: str, files: Mapping[str, str]) -> Unit:
    """Return the unit of this name, which has a file, with its drop-ins (`NAME.d/*.conf`). Raises `InvalidFile`."""
    sections: dict[str, dict[str, list[Assignment]]] = {}
    for file in (file_of(name, files) or name, *_drop_ins(name, files)):
        for section, assignment in _lines_of(file, files[file]):
            lines = sections.setdefault(section, {}).setdefault(assignment.key, [])
            if assignment.value:
                lines.append(assignment)
            else:
                lines.clear()
    return Unit(name, sections)


def _drop_ins(name: str, files: Mapping[str, str]) -> Sequence[str]:
    """Return the drop-ins in the order of their names; of one name that of the folder which says most of the unit's
    name.
    """
    stem, _, kind = name.rpartition(".")
    prefix, at, _ = stem.partition("@")
    words = prefix.split("-")
    shorter = (f"{'-'.join(words[:count])}-.{kind}" for count in range(1, len(words)))
    folders = (f"{each}.d/" for each in (kind, *shorter, f"{prefix}{at}.{kind}", name))
    order = {folder: place for place, folder in enumerate(folders)}
    found = [file for file in files if file.endswith(".conf") and file[: file.find("/") + 1] in order]
    found.sort(key=lambda file: order[file[: file.find("/") + 1]])
    return [file for _, file in sorted({file.rpartition("/")[2]: file for file in found}.items())]


def _lines_of(file: str, text: str) -> Iterator[tuple[str, Assignment]]:
    section = ""
    for number, line in _joined(text):
        place = f"{file}:{number}"
        key, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif not equals or not section or not key.strip():
            allowed = "Key=value below a [Section]"
            raise InvalidFile(f"{line[:100]!r} is no line of a unit", field=place, value=line, allowed=allowed)
        else:
            yield section, Assignment(place, key.strip(), value.strip())


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, each with its number; continued ones as one."""
    begun, parts = 0, list[str]()
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = raw.strip()
        if line.startswith(_COMMENTS) or (not line and not parts):
            continue
        begun = begun if parts else number
        goes_on = (len(raw) - len(raw.rstrip("\\"))) % 2 == 1  # two are one that is escaped
        parts.append(line.removesuffix("\\") if goes_on else line)
        if not goes_on:
            yield begun, " ".join(parts).strip()
            parts = []
    if parts:
        yield begun, " ".join(parts).strip()


def stem_of(name: str) -> str:
    """Return the name of a unit without its type."""
    return PurePath(name).stem


def prefix_and_instance(name: str) -> tuple[str, str]:
    """`foo` and `bar` of `foo@bar.timer`; without an instance the whole name, and nothing."""
    prefix, _, instance = stem_of(name).partition("@")
    return prefix, instance
