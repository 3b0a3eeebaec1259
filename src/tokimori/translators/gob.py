"""Go's gob, read as data: a stream defines the types of its values before them. Pure.

The format is that of the documentation of Go's package `encoding/gob`. Values that encode themselves, as `time.Time`
does, stay bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tokimori.errors import InvalidInput

MOST_BYTES = 1 << 24
_MOST_STEPS = 1_000_000
_DEEPEST = 50
_WIRE_TYPE = 16


@dataclass(frozen=True, slots=True)
class _Type:
    """A type: `fields` of a struct by their numbers, `inner` of a list, `key` and `inner` of a map."""

    kind: Literal["bool", "int", "uint", "float", "bytes", "string", "struct", "list", "map", "opaque"]
    fields: tuple[tuple[str, int], ...] = ()
    inner: int = 0
    key: int = 0


_COMMON = ("CommonType", 18)
_KNOWN: Mapping[int, _Type] = MappingProxyType(
    {
        1: _Type("bool"),
        2: _Type("int"),
        3: _Type("uint"),
        4: _Type("float"),
        5: _Type("bytes"),
        6: _Type("string"),
        16: _Type(
            "struct",
            (
                *(("ArrayT", 17), ("SliceT", 19), ("StructT", 20), ("MapT", 23)),
                *(("GobEncoderT", 24), ("BinaryMarshalerT", 24), ("TextMarshalerT", 24)),
            ),
        ),
        17: _Type("struct", (_COMMON, ("Elem", 2), ("Len", 2))),
        18: _Type("struct", (("Name", 6), ("Id", 2))),
        19: _Type("struct", (_COMMON, ("Elem", 2))),
        20: _Type("struct", (_COMMON, ("Field", 22))),
        21: _Type("struct", (("Name", 6), ("Id", 2))),
        22: _Type("list", inner=21),
        23: _Type("struct", (_COMMON, ("Key", 2), ("Elem", 2))),
        24: _Type("struct", (_COMMON,)),
    }
)


def read_gob(data: bytes) -> object:
    """Return the first value of a stream: structs are dicts, without the fields that have Go's zero value.

    Raises `InvalidInput` if it is no gob, too long, or nested too deeply.
    """
    if len(data) > MOST_BYTES:
        raise _invalid(f"it has {len(data)} bytes, and {MOST_BYTES} is the most")
    try:
        return _GobReader(data).first()
    except (IndexError, ValueError, KeyError, TypeError, OverflowError) as fault:
        raise _invalid(f"it can't be read ({type(fault).__name__})") from None


def _invalid(fault: str) -> InvalidInput:
    return InvalidInput(f"gob: {fault}", field="gob", allowed="a value as Go's encoding/gob writes it")


class _GobReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self._steps = 0
        self._types = dict(_KNOWN)

    def first(self) -> object:
        """Return the first message that is a value; earlier ones define types."""
        while True:
            self._uint()  # the length of the message
            number = self._int()
            if number > 0:
                if self._types[number].kind != "struct":
                    self._uint()  # what is no struct has a zero before it
                return self._value(number, 0)
            self._types[-number] = _defined(self._value(_WIRE_TYPE, 0))

    def _take(self, length: int) -> bytes:
        found = self._data[self._place : self._place + length]
        if len(found) != length:
            raise IndexError("it ends too early")
        self._place += length
        return found

    def _uint(self) -> int:
        first = self._take(1)[0]
        if first < 128:
            return first
        if first < 248:
            raise ValueError("a number has at most 8 bytes")
        return int.from_bytes(self._take(256 - first), "big")

    def _int(self) -> int:
        number = self._uint()
        return ~(number >> 1) if number & 1 else number >> 1

    def _value(self, number: int, depth: int) -> object:
        self._steps += 1
        if depth > _DEEPEST or self._steps > _MOST_STEPS:
            raise ValueError("it is too large")
        found = self._types[number]
        match found.kind:
            case "bool":
                return self._uint() != 0
            case "int":
                return self._int()
            case "uint" | "float":
                return self._uint()
            case "bytes" | "opaque":
                return self._take(self._uint())
            case "string":
                return self._take(self._uint()).decode("utf-8", "replace")
            case "struct":
                return self._struct(found, depth)
            case "list":
                return [self._value(found.inner, depth + 1) for _ in range(self._count())]
            case "map":
                return dict(self._pair(found, depth) for _ in range(self._count()))

    def _count(self) -> int:
        """Return the number of members: each takes a byte at least."""
        count = self._uint()
        if count > len(self._data):
            raise ValueError("there are not so many")
        return count

    def _pair(self, found: _Type, depth: int) -> tuple[str, object]:
        return str(self._value(found.key, depth + 1)), self._value(found.inner, depth + 1)

    def _struct(self, found: _Type, depth: int) -> dict[str, object]:
        values: dict[str, object] = {}
        place = -1
        while delta := self._uint():
            place += delta
            name, number = found.fields[place]
            values[name] = self._value(number, depth + 1)
        return values


def _defined(said: object) -> _Type:
    """Return the type that a message defines."""
    (kind, terms) = next(iter(said.items())) if isinstance(said, dict) and said else ("", {})
    match kind, terms:
        case "StructT", dict():
            fields = terms.get("Field", [])
            return _Type("struct", tuple((str(each.get("Name", "")), int(each.get("Id", 0))) for each in fields))
        case (("SliceT" | "ArrayT"), {"Elem": int() as inner}):
            return _Type("list", inner=inner)
        case "MapT", {"Key": int() as key, "Elem": int() as inner}:
            return _Type("map", inner=inner, key=key)
        case (("GobEncoderT" | "BinaryMarshalerT" | "TextMarshalerT"), _):
            return _Type("opaque")
        case _:
            raise ValueError("an unknown kind of type")
