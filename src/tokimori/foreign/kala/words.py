"""Kala's commands: split into words without a shell. `;`, `|` and `>` are words like others. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tokimori.errors import InvalidInput

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_ALLOWED = "a program and its arguments, with both quotes around what is quoted"


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a word: a text, the name of a variable, or a command (`substitution`) whose output it is."""

    kind: Literal["text", "variable", "substitution"]
    text: str


Word = list[Part]


@lru_cache(maxsize=1024)
def arguments_of(command: str) -> tuple[str, ...]:
    """Return the program and its arguments. Raises `InvalidInput`.

    A word with a variable or a command in back-ticks is known when the run starts. A shell then puts the value there,
    and does nothing else.
    """
    words = list(_words(command))
    if not words:
        raise InvalidInput("command: it is empty", field="command", value=command, allowed=_ALLOWED)
    if all(part.kind == "text" for word in words for part in word):
        return tuple("".join(part.text for part in word) for word in words)
    return ("/bin/sh", "-c", " ".join(["exec", *map(_quoted, words)]))


def _words(command: str) -> Iterator[Word]:
    """Yield the words. Quotes keep blanks. A backslash keeps the next character, except in single quotes."""
    word: Word | None = None
    place = 0
    while place < len(command):
        character = command[place]
        if character in " \t\r\n":
            if word is not None:
                yield word
            word = None
            place += 1
            continue
        parts, place = _next(command, place)
        word = [*(word or []), *parts]
    if word is not None:
        yield word


def _next(command: str, place: int) -> tuple[Sequence[Part], int]:
    """Return the parts that begin at this place, and the place of the next ones."""
    match command[place]:
        case "'":
            end = _end(command, place)
            return _parts(command[place + 1 : end]), end + 1
        case "`":
            end = _end(command, place)
            return [Part("substitution", command[place + 1 : end])], end + 1
        case '"':
            return _in_double_quotes(command, place)
        case "\\":
            if place + 1 == len(command):
                raise _unfinished(command)
            return [Part("text", command[place + 1])], place + 2
        case _:
            end = place + 1
            while end < len(command) and command[end] not in " \t\r\n'\"`\\":
                end += 1
            return _parts(command[place:end]), end


def _in_double_quotes(command: str, place: int) -> tuple[Sequence[Part], int]:
    parts: Word = [Part("text", "")]
    place += 1
    while place < len(command) and command[place] != '"':
        if command[place] == "\\" and place + 1 < len(command):
            parts.append(Part("text", command[place + 1]))
            place += 2
            continue
        end = place + 1
        while end < len(command) and command[end] not in '"\\':
            end += 1
        parts += _parts(command[place:end])
        place = end
    if place >= len(command):
        raise _unfinished(command)
    return parts, place + 1


def _parts(text: str) -> Sequence[Part]:
    """Return a text with its variables, which Kala finds in single quotes too."""
    parts, place = [], 0
    for found in _VARIABLE.finditer(text):
        parts += [Part("text", text[place : found.start()]), Part("variable", found[1] or found[2])]
        place = found.end()
    return [*parts, Part("text", text[place:])]


def _end(command: str, place: int) -> int:
    end = command.find(command[place], place + 1)
    if end < 0:
        raise _unfinished(command)
    return end


def _unfinished(command: str) -> InvalidInput:
    return InvalidInput("command: a quote has no end", field="command", value=command, allowed=_ALLOWED)


def _quoted(word: Word) -> str:
    """Return the word quoted for a shell: it stays one word for all values of its variables."""
    return "".join(_quoted_part(part) for part in word if part.text or part.kind == "text") or "''"


def _quoted_part(part: Part) -> str:
    match part.kind:
        case "text":
            return shlex.quote(part.text) if part.text else ""
        case "variable":
            return f'"${{{part.text}}}"'
        case "substitution":
            return f'"$(/bin/sh -c {shlex.quote(part.text)})"'
