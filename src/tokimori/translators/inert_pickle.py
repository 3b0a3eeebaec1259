"""Foreign pickles, read as data: nothing is imported, called or made. Pure.

A pickle is a program for a machine with a stack. Python's own machine (`pickle`) runs it with all that can be imported;
the one here knows only data. A class or function is its name (`Name`). An object or the result of a call is a `Record`
of the name and the arguments. The caller decides by that name what a record means.
"""

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any

from tokimori.errors import InvalidInput
from tokimori.schedules.zones import check_zone
from tokimori.translators.entries import refusal

_ZONES = (
    "pytz._p",
    "zoneinfo.ZoneInfo._unpickle",
    "zoneinfo._zoneinfo.ZoneInfo._unpickle",
    "backports.zoneinfo.ZoneInfo._unpickle",
)
_UTC = ("pytz._UTC", "pytz._utc", "dateutil.tz.tz.tzutc", "zoneinfo.UTC")


@dataclass(frozen=True, slots=True)
class ZonedTime:
    """A time on the clock, and the name of its zone; None: it had none."""

    wall: datetime
    zone: str | None

    def text(self) -> str:
        """Return the time as our schedules read it, in the zone of the job."""
        return self.wall.isoformat()


def read_datetime(name: str, value: object) -> ZonedTime:
    """Return a `datetime.datetime`. Raises `InvalidInput`."""
    if isinstance(value, Record) and value.name == "datetime.datetime" and value.arguments:
        packed, *zone = value.arguments
        wall = _unpacked(packed)
        if wall is not None and len(zone) <= 1:
            return ZonedTime(wall, read_zone(name, zone[0]) if zone else None)
    raise refusal(name, value, "a datetime")


def read_date(name: str, value: object) -> date:
    """Return a `datetime.date`. Raises `InvalidInput`."""
    if isinstance(value, Record) and value.name == "datetime.date" and len(value.arguments) == 1:
        packed = _bytes_of(value.arguments[0], 4)
        try:
            return date(packed[0] * 256 + packed[1], packed[2], packed[3])
        except (IndexError, ValueError):
            pass
    raise refusal(name, value, "a date")


def _bytes_of(packed: object, size: int) -> bytes:
    """Return the next bytes of a pickle; none if they are others. Protocols below 3 write bytes as a text."""
    if isinstance(packed, Record) and packed.name in ("_codecs.encode", "codecs.encode"):
        text = packed.arguments[0]
        packed = text.encode("latin-1", "replace") if isinstance(text, str) else None
    return packed if isinstance(packed, bytes) and len(packed) == size else b""


def _unpacked(packed: object) -> datetime | None:
    """Return the time of the ten bytes in which Python writes one."""
    if not (packed := _bytes_of(packed, 10)):
        return None
    year, month, day, hour, minute, second = packed[0] * 256 + packed[1], packed[2] & 0x7F, *packed[3:7]
    try:
        return datetime(year, month, day, hour, minute, second, int.from_bytes(packed[7:], "big"))
    except ValueError:
        return None


def read_timedelta(name: str, value: object) -> timedelta:
    """Return a `datetime.timedelta`. Raises `InvalidInput`."""
    if isinstance(value, Record) and value.name == "datetime.timedelta" and len(value.arguments) == 3:
        days, seconds, microseconds = value.arguments
        if all(isinstance(each, int) for each in value.arguments):
            try:
                return timedelta(days, seconds, microseconds)  # type: ignore[arg-type]
            except (OverflowError, ValueError):
                pass
    raise refusal(name, value, "a timedelta")


def read_zone(name: str, value: object) -> str:
    """Return the name of a time zone: of pytz, of zoneinfo, or of UTC. Raises `InvalidInput`."""
    match value:
        case Record(name=found, arguments=(str() as zone, *_)) if found in _ZONES:
            return _checked_zone(name, zone)
        case Record(name=found) if found in _UTC:
            return "UTC"
        case Record(name="datetime.timezone", arguments=(Record() as offset, *_)):
            if read_timedelta(name, offset) == timedelta():
                return "UTC"
        case _:
            pass
    raise refusal(name, value, "a zone by name, as zoneinfo and pytz have")


def _checked_zone(name: str, zone: str) -> str:
    try:
        return check_zone(zone, field=name)
    except InvalidInput as fault:
        raise refusal(name, zone, str(fault.allowed)) from None


MOST_BYTES = 1 << 20
"""Bytes of the longest pickle: a larger one holds data, not terms."""
MOST_STEPS = 100_000
_MOST_BITS = 64
_ALLOWED = "a pickle of plain data, as the library itself writes it"


@dataclass(frozen=True, slots=True)
class Name:
    """Name that a pickle would import, such as `datetime.timedelta`."""

    text: str


@dataclass(slots=True, eq=False)
class Record:
    """Call that a pickle would make, and did not: `name`, arguments, and state if given."""

    name: str
    arguments: tuple[object, ...] = ()
    state: object = None
    items: list[object] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.name}>"


class _Mark:
    """Beginning of a group of values."""


_MARK = _Mark()


def read_pickle(data: bytes) -> object:
    """Return a pickle's content: None, truth values, numbers, texts, bytes, lists, tuples, sets, dicts, names, records.

    Raises `InvalidInput` if it is no pickle, too long, or needs more than data. Values may be shared, and a list may
    hold itself: a walk through them must count.
    """
    if len(data) > MOST_BYTES:
        raise _invalid(f"it has {len(data)} bytes, and {MOST_BYTES} is the most")
    machine = _Machine()
    try:
        for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if step == MOST_STEPS:
                raise _invalid(f"it has more than {MOST_STEPS} steps")
            if opcode.name == "STOP":
                return machine.result()
            machine.take(opcode.name, argument)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as fault:
        raise _invalid(f"it can't be read ({type(fault).__name__})") from None
    raise _invalid("it has no end")


def _invalid(fault: str) -> InvalidInput:
    return InvalidInput(f"pickle: {fault}", field="pickle", allowed=_ALLOWED)


class _Machine:
    """Machine with a stack of values, and a memory of numbered ones."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memory: dict[int, object] = {}

    def result(self) -> object:
        """Return the only value that is left."""
        value = self._pop()
        if self._stack:
            raise ValueError("more than one value is left")
        return value

    def take(self, name: str, argument: Any) -> None:
        """Take one step. Raises `InvalidInput` for one that needs more than data."""
        if name in _SILENT:
            return
        if name in _PLAIN:
            self._stack.append(_checked(argument))
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _REMEMBER:
            self._memory[len(self._memory) if argument is None else int(argument)] = self._stack[-1]
        elif name in _RECALL:
            self._stack.append(self._memory[int(argument)])
        elif name in _STEPS:
            _STEPS[name](self, argument)
        else:
            raise _invalid(f"its step {name} asks for more than data")

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark is no value")
        return value

    def _group(self) -> list[Any]:
        """Remove the last mark, and return the values above it."""
        found = []
        while (value := self._stack.pop()) is not _MARK:
            found.append(value)
        return found[::-1]

    def _push_group(self, made: Callable[[list[Any]], object]) -> None:
        self._stack.append(made(self._group()))

    def _tuple(self, length: int) -> None:
        values = tuple(self._pop() for _ in range(length))
        self._stack.append(values[::-1])

    def _append(self, values: list[Any]) -> None:
        owner = self._stack[-1]
        (owner.items if isinstance(owner, Record) else owner).extend(values)

    def _set(self, pairs: list[Any]) -> None:
        owner = self._stack[-1]
        if isinstance(owner, Record):
            owner.items.extend(zip(pairs[::2], pairs[1::2], strict=True))
        else:
            owner.update(_dict(pairs))

    def _add(self, values: list[Any]) -> None:
        self._stack[-1].update(map(_key, values))

    def _import(self, text: str) -> None:
        self._stack.append(Name(text.replace(" ", ".", 1)))

    def _stack_import(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError("a name is a text")
        self._stack.append(Name(f"{module}.{name}"))

    def _call(self) -> None:
        arguments, called = self._pop(), self._pop()
        self._stack.append(Record(_name_of(called), _tuple(arguments)))

    def _call_with_names(self) -> None:
        names, arguments, called = self._pop(), self._pop(), self._pop()
        self._stack.append(Record(_name_of(called), _tuple(arguments), items=list(names.items())))

    def _make(self) -> None:
        called, *arguments = self._group()
        self._stack.append(Record(_name_of(called), tuple(arguments)))

    def _make_named(self, text: str) -> None:
        self._stack.append(Record(text.replace(" ", ".", 1), tuple(self._group())))

    def _build(self) -> None:
        state = self._pop()
        owner = self._stack[-1]
        if not isinstance(owner, Record):
            raise TypeError("only a record has a state")
        owner.state = state

    def _group_away(self) -> None:
        self._group()

    def _again(self) -> None:
        self._stack.append(self._stack[-1])

    def _mark(self) -> None:
        self._stack.append(_MARK)

    def _away(self) -> None:
        self._stack.pop()


def _tuple(value: object) -> tuple[object, ...]:
    if isinstance(value, tuple):
        return value
    raise TypeError("arguments are a tuple")


def _name_of(called: object) -> str:
    """Return the name of the callable: a class or function, or the result of another call."""
    if isinstance(called, Name):
        return called.text
    if isinstance(called, Record) and called.name in ("builtins.getattr", "__builtin__.getattr"):
        owner, attribute = called.arguments
        if isinstance(owner, Name) and isinstance(attribute, str):
            return f"{owner.text}.{attribute}"
    raise TypeError("nothing that has a name is called")


def _dict(pairs: list[Any]) -> dict[Any, Any]:
    return dict(zip(map(_key, pairs[::2]), pairs[1::2], strict=True))


def _frozen(values: list[Any]) -> frozenset[Any]:
    return frozenset(map(_key, values))


def _key(value: object) -> object:
    """Return a key of a dict, or a member of a set. Refuse a nested one: its hash may crash or never end."""
    if isinstance(value, str | bytes | int | float | Name | Record | None):
        return value
    raise TypeError("a key is a plain value")


def _checked(value: object) -> object:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("the number is too large")
    return value


_SILENT = frozenset({"PROTO", "FRAME"})
_PLAIN = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
_REMEMBER = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_RECALL = frozenset({"GET", "BINGET", "LONG_BINGET"})
_CONSTANTS: Mapping[str, Callable[[], object]] = MappingProxyType(
    {
        "NONE": lambda: None,
        "NEWTRUE": lambda: True,
        "NEWFALSE": lambda: False,
        "EMPTY_LIST": list,
        "EMPTY_TUPLE": tuple,
        "EMPTY_DICT": dict,
        "EMPTY_SET": set,
    }
)
_STEPS: Mapping[str, Callable[[_Machine, Any], None]] = MappingProxyType(
    {
        "MARK": lambda machine, _: machine._mark(),
        "POP": lambda machine, _: machine._away(),
        "POP_MARK": lambda machine, _: machine._group_away(),
        "DUP": lambda machine, _: machine._again(),
        "LIST": lambda machine, _: machine._push_group(list),
        "TUPLE": lambda machine, _: machine._push_group(tuple),
        "DICT": lambda machine, _: machine._push_group(_dict),
        "FROZENSET": lambda machine, _: machine._push_group(_frozen),
        "TUPLE1": lambda machine, _: machine._tuple(1),
        "TUPLE2": lambda machine, _: machine._tuple(2),
        "TUPLE3": lambda machine, _: machine._tuple(3),
        "APPEND": lambda machine, _: machine._append([machine._pop()]),
        "APPENDS": lambda machine, _: machine._append(machine._group()),
        "SETITEM": lambda machine, _: machine._set([machine._pop(), machine._pop()][::-1]),
        "SETITEMS": lambda machine, _: machine._set(machine._group()),
        "ADDITEMS": lambda machine, _: machine._add(machine._group()),
        "GLOBAL": lambda machine, text: machine._import(text),
        "STACK_GLOBAL": lambda machine, _: machine._stack_import(),
        "REDUCE": lambda machine, _: machine._call(),
        "NEWOBJ": lambda machine, _: machine._call(),
        "NEWOBJ_EX": lambda machine, _: machine._call_with_names(),
        "OBJ": lambda machine, _: machine._make(),
        "INST": lambda machine, text: machine._make_named(text),
        "BUILD": lambda machine, _: machine._build(),
    }
)
