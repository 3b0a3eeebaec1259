"""Writes Go's gob, as its documentation describes it: what Kala keeps in Redis, made by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Kind = "str | Struct | list[Kind] | dict[str, Kind]"
_BUILT_IN = {"bool": 1, "int": 2, "uint": 3, "string": 6}


@dataclass(frozen=True)
class Struct:
    """A struct of Go: its fields, in their order, with their kinds."""

    name: str
    fields: Mapping[str, Any]


def written(kind: Struct, value: Mapping[str, object]) -> bytes:
    """A stream with one value: the types first."""
    stream = _Stream()
    number = stream.number_of(kind)
    return stream.types + _message(_int(number) + stream.value(kind, value))


def _uint(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([256 - len(data)]) + data


def _int(number: int) -> bytes:
    return _uint(~number << 1 | 1 if number < 0 else number << 1)


def _text(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return _uint(len(data)) + data


def _message(content: bytes) -> bytes:
    return _uint(len(content)) + content


class _Stream:
    def __init__(self) -> None:
        self.types = b""
        self._numbers: dict[str, int] = {}

    def number_of(self, kind: Any) -> int:
        """The number of a type, which is defined the first time."""
        if kind in ("bool", "int", "uint", "string"):
            return _BUILT_IN[kind]
        if repr(kind) not in self._numbers:
            number = self._numbers[repr(kind)] = 65 + len(self._numbers)
            before, self.types = self.types, b""
            defined = _message(_int(-number) + self._definition(kind, number))
            self.types = before + defined + self.types
        return self._numbers[repr(kind)]

    def _definition(self, kind: Any, number: int) -> bytes:
        name = kind.name if isinstance(kind, Struct) else ""
        common = (b"\x01" + _text(name) if name else b"") + (b"\x01" if name else b"\x02") + _int(number) + b"\x00"
        match kind:
            case Struct():
                fields = b"".join(
                    b"\x01" + _text(field) + b"\x01" + _int(self.number_of(each)) + b"\x00"
                    for field, each in kind.fields.items()
                )
                return b"\x03\x01" + common + b"\x01" + _uint(len(kind.fields)) + fields + b"\x00\x00"
            case [inner]:
                return b"\x02\x01" + common + b"\x01" + _int(self.number_of(inner)) + b"\x00\x00"
            case dict():
                ((key, inner),) = kind.items()
                terms = b"\x01" + _int(self.number_of(key)) + b"\x01" + _int(self.number_of(inner))
                return b"\x04\x01" + common + terms + b"\x00\x00"
            case _:
                return b"\x05\x01" + common + b"\x00\x00"

    def value(self, kind: Any, value: Any) -> bytes:
        """A value; fields that are zero are left out."""
        match kind:
            case "bool":
                return b"\x01" if value else b"\x00"
            case "int":
                return _int(value)
            case "uint":
                return _uint(value)
            case "string" | "time":
                return _text(value)
            case Struct():
                return self._struct(kind, value)
            case [inner]:
                return _uint(len(value)) + b"".join(self.value(inner, each) for each in value)
            case _:
                ((key, inner),) = kind.items()
                pairs = (self.value(key, name) + self.value(inner, each) for name, each in value.items())
                return _uint(len(value)) + b"".join(pairs)

    def _struct(self, kind: Struct, value: Mapping[str, Any]) -> bytes:
        found, last = b"", -1
        names: Sequence[str] = list(kind.fields)
        for place, name in enumerate(names):
            if value.get(name) not in (None, "", 0, False, [], {}):
                found += _uint(place - last) + self.value(kind.fields[name], value[name])
                last = place
        return found + b"\x00"
