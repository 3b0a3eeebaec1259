"""YAML values with their lines and paths, read field by field, so that all faults are found at once."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import yaml

from tokimori.errors import InvalidFile

_T = TypeVar("_T")

_MOST_LEVELS = 60
_MOST_MERGED = 100_000
"""Fields of a document that come from merges: far more than any manifest has."""
_MOST_NUMBER = 2**63
_MOST_SHOWN = 60
_MERGE = "tag:yaml.org,2002:merge"
_EMPTY = (None, "", False)
_NAMES = {str: "a text", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a file, each with its line."""

    file: str
    lines: dict[tuple[int, str], None] = field(default_factory=dict)
    """Lines with their faults, each once: a file may have a million."""

    def add(self, line: int, message: str) -> None:
        """Note a fault, once."""
        self.lines[line, message] = None

    def texts(self) -> list[str]:
        """Return the faults as `file:line: message`, in order of lines."""
        return self.texts_after(0)

    def texts_after(self, known: int) -> list[str]:
        """Return the faults that were noted after so many."""
        return [f"{self.file}:{line}: {message}" for line, message in sorted(list(self.lines)[known:])]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a document: a scalar, a list or a mapping of values."""

    path: str
    line: int
    content: object
    faults: Faults

    def refuse(self, message: str) -> None:
        """Note a fault of the value."""
        self.faults.add(self.line, f"{self.path}: {message}" if self.path else message)

    def is_empty(self) -> bool:
        """Return if it is an empty value, which counts as missing."""
        return self.content in _EMPTY or self.content in ({}, [])

    def as_a(self, kind: type[_T]) -> _T | None:
        """Return the value, if it is a scalar of that kind; else note a fault and return None."""
        if isinstance(self.content, kind) and not (kind is int and isinstance(self.content, bool)):
            return self.content
        self.refuse(f"{_shown(self.content)} is not allowed; allowed: {_NAMES[kind]}")
        return None

    def items(self) -> Sequence["Value"]:
        """Return the values of a list; if it is no list, note a fault and return none."""
        if isinstance(self.content, list):
            return self.content
        if self.content is not None:
            self.refuse(f"{_shown(self.content)} is not allowed; allowed: a list")
        return []

    def texts(self) -> list[str]:
        """Return the texts of a list."""
        return [text for item in self.items() if (text := item.as_a(str)) is not None]

    def fields(self) -> Mapping[str, "Value"]:
        """Return the fields of a mapping; if it is no mapping, note a fault and return none."""
        if isinstance(self.content, dict):
            return self.content
        if self.content is not None:
            self.refuse(f"{_shown(self.content)} is not allowed; allowed: a mapping")
        return {}

    def get(self, name: str) -> "Value | None":
        """Return a field, unless it is missing or null."""
        found = self.fields().get(name)
        return None if found is None or found.content is None else found

    def below(self, name: str) -> "Value":
        """Return a field that is a mapping; an empty one if it is missing."""
        return self.get(name) or Value(f"{self.path}.{name}".lstrip("."), self.line, {}, self.faults)

    def scalar(self, name: str, kind: type[_T], default: _T) -> _T:
        """Return a field that is a scalar of that kind."""
        found = self.get(name)
        value = None if found is None else found.as_a(kind)
        return default if value is None else value


def read_documents(text: str, faults: Faults, *, as_texts: bool = False) -> Iterator[Value]:
    """Return the documents of a file that are not empty; `as_texts`: each scalar is a text, whatever it looks like.

    Raises `InvalidFile` if it is not YAML.
    """
    try:
        loader = yaml.BaseLoader(text) if as_texts else yaml.SafeLoader(text)
        while loader.check_node():
            node = loader.get_node()
            if (
                node is not None
                and (document := _YamlReader(loader, faults).value(node, "", 0, node.start_mark.line)).content
                is not None
            ):
                yield document
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        place = faults.file if mark is None else f"{faults.file}:{mark.line + 1}"
        problem = getattr(fault, "problem", None) or getattr(fault, "reason", None) or "it can't be read"
        raise InvalidFile(f"{place}: not YAML: {problem}", field="file", value=faults.file) from None
    except RecursionError:
        raise InvalidFile(f"{faults.file}: it is nested too deeply", field="file", value=faults.file) from None


@dataclass(frozen=True, slots=True)
class _YamlReader:
    """Reader that makes values from nodes. Each node is read once, so that aliases can't explode."""

    loader: yaml.SafeLoader | yaml.BaseLoader
    faults: Faults
    known: dict[int, Value] = field(default_factory=dict)
    merged: Counter[str] = field(default_factory=Counter)

    def value(self, node: yaml.Node, path: str, level: int, line: int) -> Value:
        """Return the value of a node; `line` counts from 0, and is the line of its name if it has one."""
        found = self.known.get(id(node))
        if found is None:
            found = Value(path, line + 1, self._content(node, path, level), self.faults)
            self.known[id(node)] = found
        return found

    def _content(self, node: yaml.Node, path: str, level: int) -> object:
        if level > _MOST_LEVELS:
            raise yaml.MarkedYAMLError(problem="it is nested too deeply", problem_mark=node.start_mark)
        match node:
            case yaml.MappingNode():
                return self._fields(node, path, level)
            case yaml.SequenceNode():
                lines = (item.start_mark.line for item in node.value)
                places = zip(node.value, lines, strict=True)
                return [self.value(item, f"{path}[{n}]", level + 1, line) for n, (item, line) in enumerate(places)]
            case _:
                return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> object:
        """Return the value. The library raises errors of any kind for `!!int x`, `!!bool x` or a 13th month."""
        try:
            found: object = self.loader.construct_object(node)
        except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as fault:
            problem = f"{_shown(node.value)} is not a {node.tag.rpartition(':')[2]} ({fault})"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None
        if isinstance(found, int) and abs(found) > _MOST_NUMBER:
            raise yaml.MarkedYAMLError(problem="the number is too large", problem_mark=node.start_mark)
        return found

    def _fields(self, node: yaml.MappingNode, path: str, level: int) -> dict[str, Value]:
        times = Counter(key.value for key, _ in node.value)
        fields: dict[str, Value] = {}
        for key, value in node.value:
            if times[key.value] > 1:
                self.faults.add(key.start_mark.line + 1, f"{path}.{key.value}: it is given twice".lstrip("."))
            if key.tag == _MERGE:
                fields |= self._merged(value, path, level)
        for key, value in node.value:
            if key.tag != _MERGE:
                name = str(key.value)
                fields[name] = self.value(value, f"{path}.{name}".lstrip("."), level + 1, key.start_mark.line)
        return fields

    def _merged(self, node: yaml.Node, path: str, level: int) -> dict[str, Value]:
        """Return the fields of a mapping, or of a list of mappings, the first of which wins; each is read once."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        fields: dict[str, Value] = {}
        for source in reversed(sources):
            if not isinstance(source, yaml.MappingNode):
                raise yaml.MarkedYAMLError(problem="<< takes a mapping or a list", problem_mark=source.start_mark)
            more = self.value(source, path, level + 1, source.start_mark.line).fields()
            self.merged.update(fields=len(more) + 1)
            if self.merged["fields"] > _MOST_MERGED:
                raise yaml.MarkedYAMLError(problem="<< brings too many fields", problem_mark=node.start_mark)
            fields |= more
        return fields


def _shown(content: object) -> str:
    match content:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str() if len(content) > _MOST_SHOWN:
            return repr(f"{content[:_MOST_SHOWN]}…")
        case _:
            return repr(content)
