"""Unit files of systemd, read line by line, as systemd.syntax(7) describes them. Pure.

A line is `Key=value`; a key may come more than once. A backslash at the end joins the next line, and comments between
joined lines are left out. An empty value cancels earlier values of the key.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import NamedTuple

from tokimori.errors import InvalidFile

_COMMENTS = ("#", ";")
_FLAGS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}


class Assignment(NamedTuple):
    """A line, and its place: `file:line`."""

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
    """A unit: its name, its lines by section and key, and what more `%` stands for in it."""

    name: str
    sections: Mapping[str, Mapping[str, Sequence[Assignment]]]
    known: Mapping[str, str] = field(default_factory=dict)

    def all(self, section: str, key: str) -> Sequence[Assignment]:
        """Return the values of a key in order; an empty value cancels earlier ones."""
        return self.sections.get(section, {}).get(key, ())

    def last(self, section: str, key: str) -> Assignment | None:
        """Return the value of a key that has one."""
        found = self.all(section, key)
        return found[-1] if found else None

    def keys(self, section: str) -> Sequence[str]:
        """Return the keys of a section that are set, each once."""
        return tuple(key for key, lines in self.sections.get(section, {}).items() if lines)


def file_of(name: str, files: Mapping[str, str]) -> str | None:
    """Return the file of a unit: its own one, or that of its template; None if there is none."""
    stem, dot, kind = name.rpartition(".")
    prefix, at, _ = stem.partition("@")
    return next((file for file in (name, f"{prefix}{at}{dot}{kind}") if file in files), None)


def read_unit(name: str, files: Mapping[str, str], known: Mapping[str, str] = MappingProxyType({})) -> Unit:
    """Return the unit of this name, which has a file, with its drop-ins (`NAME.d/*.conf`). Raises `InvalidFile`."""
    sections: dict[str, dict[str, list[Assignment]]] = {}
    for file in (file_of(name, files) or name, *_drop_ins(name, files)):
        for section, assignment in _lines_of(file, files[file]):
            lines = sections.setdefault(section, {}).setdefault(assignment.key, [])
            if assignment.value:
                lines.append(assignment)
            else:
                lines.clear()
    return Unit(name, sections, known)


def _drop_ins(name: str, files: Mapping[str, str]) -> Sequence[str]:
    """Return the drop-ins in the order of their names; of equal names the one from the most specific folder."""
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
    """Yield the lines with content, each with its number; continued ones as one."""
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
    """Return `foo` and `bar` of `foo@bar.timer`; without an instance, the whole name and an empty text."""
    prefix, _, instance = stem_of(name).partition("@")
    return prefix, instance


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ", "\\": "\\"}
_ESCAPES |= {"'": "'", '"': '"'}
_HEX = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)", re.ASCII)
_SPECIFIER = re.compile(r"%(.?)")
_PREFIXES = "@-:+!|"
_ALLOWED_WORDS = "words, quoted by ' or \" where they hold blanks"
_ALLOWED_PREFIXES = "no prefix, or - to ignore a failure"


class _Line(NamedTuple):
    """Parsed line: its words, if its failure counts, and if `$` is expanded in it."""

    words: Sequence[str]
    may_fail: bool
    expands: bool


def command_of(lines: Sequence[Assignment], unit: Unit) -> str | tuple[str, ...]:
    """Return the command of these lines: a list of words, or a text for the shell. Raises `InvalidFile`."""
    read = [_line(line, unit) for line in lines]
    if len(read) == 1 and not read[0].may_fail and not _uses_variables(read[0]):
        return tuple(word.replace("$$", "$") if read[0].expands else word for word in read[0].words)
    return " && ".join(_in_shell(line, alone=len(read) == 1) for line in read)


def words_of(line: Assignment) -> list[str]:
    """Return the words of a line. Raises `InvalidFile`."""
    words: list[str] = []
    word: list[str] | None = None
    quote, at, text = "", 0, line.value
    while at < len(text):
        letter = text[at]
        at += 1
        if letter.isspace() and not quote:
            words += [] if word is None else ["".join(word)]
            word = None
            continue
        word = [] if word is None else word
        if letter == "\\" and at < len(text):
            said, length = _escaped(text, at, line)
            word.append(said)
            at += length
        elif letter == quote:
            quote = ""
        elif letter in "'\"" and not quote:
            quote = letter
        else:
            word.append(letter)
    if quote:
        raise line.refused(f"there is no closing {quote}", _ALLOWED_WORDS)
    return words if word is None else [*words, "".join(word)]


def _escaped(text: str, at: int, line: Assignment) -> tuple[str, int]:
    if found := _HEX.match(text, at):
        return chr(int(found[1], 16) if found[1] else int(found[2], 8)), len(found[0])
    if text[at] not in _ESCAPES:
        raise line.refused(f"\\{text[at]} is no escape of systemd", _ALLOWED_WORDS)
    return _ESCAPES[text[at]], 1


def expanded(text: str, unit: Unit, line: Assignment) -> str:
    """Return the text with `%` expanded. Raises `InvalidFile` for values that only a running systemd knows."""
    prefix, instance = prefix_and_instance(unit.name)
    known: Mapping[str, str] = {
        "%": "%",
        "n": unit.name,
        "N": stem_of(unit.name),
        "p": prefix,
        "i": instance,
        "j": prefix.rpartition("-")[2],
        **unit.known,
    }

    def meaning(found: re.Match[str]) -> str:
        if found[1] not in known:
            more = "; %h and %u with --user NAME, for units of a user" if found[1] in ("h", "u") else ""
            raise line.refused(f"%{found[1]} is known only to systemd", f"%{', %'.join(known)}{more}")
        return known[found[1]]

    return _SPECIFIER.sub(meaning, text)


def _line(line: Assignment, unit: Unit) -> _Line:
    text = line.value
    program = text.lstrip(_PREFIXES)
    prefixes = text[: len(text) - len(program)]
    if refused := sorted(set(prefixes) - {"-", ":"}):
        raise line.refused(f"the prefix {refused[0]} has no equal here", _ALLOWED_PREFIXES)
    words = [expanded(word, unit, line) for word in words_of(line._replace(value=program))]
    if not words:
        raise line.refused("it has no program", _ALLOWED_WORDS)
    if ";" in words:
        raise line.refused("several commands in one line", "a line for each command")
    return _Line(words, "-" in prefixes, ":" not in prefixes)


def _uses_variables(line: _Line) -> bool:
    return line.expands and any(found[0] != "$$" for word in line.words for found in _VARIABLE.finditer(word))


def _in_shell(line: _Line, *, alone: bool) -> str:
    text = " ".join(_shell_word(word) if line.expands else shlex.quote(word) for word in line.words)
    if not line.may_fail:
        return text
    return f"{text} || true" if alone else f"{{ {text} || true; }}"


def _shell_word(word: str) -> str:
    """Return a word for the shell: a variable that is a word by itself is split at blanks, one within a word is not."""
    if (alone := _VARIABLE.fullmatch(word)) and alone[2]:
        return f"${{{alone[2]}}}"
    parts, at = [], 0
    for found in _VARIABLE.finditer(word):
        parts += [shlex.quote(word[at : found.start()])] if at < found.start() else []
        name = found[1] or found[2]
        parts.append("'$'" if found[0] == "$$" else f'"${{{name}}}"')
        at = found.end()
    parts += [shlex.quote(word[at:])] if at < len(word) or not parts else []
    return "".join(parts)
