"""PHP files that return an array of plain values, read as data: no PHP is run. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tokimori.errors import InvalidFile

_DEEPEST = 30
_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|\#(?!\[)[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>[+-]?\d+(?:\.\d+)?)
    |(?P<class>\\?[A-Za-z_]\w*(?:\\[A-Za-z_]\w*)*::class\b)
    |(?P<word>\\?[A-Za-z_]\w*(?:\\[A-Za-z_]\w*)*)
    |(?P<sign>=>|[\[\](),;])""",
    re.VERBOSE | re.DOTALL,
)
_OPEN = re.compile(
    r"<\?php\b((?:\s++|//[^\n]*+|\#[^\n]*+|(?>/\*.*?\*/)|(?:use|namespace|declare)\b[^;]*+;)*+)return\b", re.DOTALL
)
_USE = re.compile(r"\buse\s+([\w\\]+)(?:\s+as\s+(\w+))?\s*;")
_NAMESPACE = re.compile(r"\bnamespace\s+([\w\\]+)\s*;")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "$": "$", '"': '"'}
_CONSTANTS = {"true": True, "false": False, "null": None}
_ALLOWED = "<?php return [ … ]; with texts, numbers, true, false, null, Name::class and arrays of them"


@dataclass(frozen=True, slots=True)
class PhpValue:
    """A value and its line. An array is a list of (key, value), where a key is None if it is not written."""

    content: "str | int | float | bool | list[tuple[str | None, PhpValue]] | None"
    line: int

    def plain(self) -> object:
        """Return a dict if every key is written, else a list."""
        if not isinstance(self.content, list):
            return self.content
        if self.content and all(key is not None for key, _ in self.content):
            return {key: value.plain() for key, value in self.content}
        return [value.plain() for _, value in self.content]


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_php_array(text: str, file: str) -> PhpValue:
    """Return the file's value. Raises `InvalidFile` for anything but an array of plain values, with file and line."""
    begin = _OPEN.match(text.lstrip())
    if begin is None:
        raise InvalidFile(f"{file}:1: it does not return an array", field="source", value=file, allowed=_ALLOWED)
    skipped = len(text) - len(text.lstrip()) + begin.end()
    reader = _PhpReader(list(_tokens(text, skipped, file)), file, _imports(begin[1]))
    value = reader.value(0)
    if not isinstance(value.content, list):
        raise reader.fault(value.line, "it returns no array")
    return value


def _imports(before: str) -> dict[str, str]:
    """Return the full names of short class names: by `use`, and by the namespace for all others (the empty name)."""
    found = {(short or name.rpartition("\\")[2]): name.lstrip("\\") for name, short in _USE.findall(before)}
    if namespace := _NAMESPACE.search(before):
        found[""] = namespace[1]
    return found


def _tokens(text: str, place: int, file: str) -> Iterator[_Token]:
    line = text.count("\n", 0, place) + 1
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            if text.startswith("?>", place):
                break
            raise InvalidFile(f"{file}:{line}: {text[place]!r} is no plain value", field="source", allowed=_ALLOWED)
        if found.lastgroup != "blank":
            yield _Token(str(found.lastgroup), found[0], line)
        line += found[0].count("\n")
        place = found.end()
    yield _Token("end", "", line)


class _PhpReader:
    def __init__(self, tokens: list[_Token], file: str, imports: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._imports = imports
        self._file = file
        self._place = 0

    def fault(self, line: int, fault: str) -> InvalidFile:
        """Return the error of the file."""
        return InvalidFile(f"{self._file}:{line}: {fault}", field="source", value=self._file, allowed=_ALLOWED)

    def _next(self) -> _Token:
        token = self._tokens[self._place]
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _take_sign(self, text: str) -> bool:
        if self._tokens[self._place].text != text or self._tokens[self._place].kind != "sign":
            return False
        self._next()
        return True

    def value(self, depth: int) -> PhpValue:
        """Read a value, and leave the text behind it."""
        token = self._next()
        if depth > _DEEPEST:
            raise self.fault(token.line, "it is nested too deeply")
        match token.kind:
            case "text":
                return PhpValue(_unquoted(token.text), token.line)
            case "number":
                return PhpValue(float(token.text) if "." in token.text else int(token.text[:25]), token.line)
            case "class":
                return PhpValue(self._class(token.text.removesuffix("::class")), token.line)
            case "word" if token.text.lower() in _CONSTANTS:
                return PhpValue(_CONSTANTS[token.text.lower()], token.line)
            case "word" if token.text.lower() == "array" and self._take_sign("("):
                return self._array(token.line, ")", depth)
            case "sign" if token.text == "[":
                return self._array(token.line, "]", depth)
            case _:
                raise self.fault(token.line, f"{token.text!r} is no plain value")

    def _class(self, name: str) -> str:
        """Return the whole name of a class."""
        if name.startswith("\\"):
            return name.lstrip("\\")
        first, separator, rest = name.partition("\\")
        if first in self._imports:
            return f"{self._imports[first]}{separator}{rest}"
        return f"{self._imports['']}\\{name}" if "" in self._imports else name

    def _array(self, line: int, end: str, depth: int) -> PhpValue:
        members: list[tuple[str | None, PhpValue]] = []
        while not self._take_sign(end):
            value = self.value(depth + 1)
            key = None
            if self._take_sign("=>"):
                key = str(value.content)
                value = PhpValue((inner := self.value(depth + 1)).content, value.line if key else inner.line)
            members.append((key, value))
            if not self._take_sign(","):
                if not self._take_sign(end):
                    raise self.fault(self._tokens[self._place].line, f"`,` or `{end}` is missing")
                break
        return PhpValue(members, line)


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return re.sub(r"\\([\\'])", r"\1", text[1:-1])
    return re.sub(r"\\([ntr\\$\"])", lambda found: _ESCAPES[found[1]], text[1:-1])
