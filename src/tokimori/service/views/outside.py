"""Values as programs and JSON get them: moments are datetimes, in UTC, and lengths are timedeltas."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Struct, UnsetType, json
from msgspec.structs import fields

from tokimori.clock import to_datetime

_T = TypeVar("_T")
_Change = Callable[[Any], Any]
Sources = Mapping[str, str | _Change | None]


class Length(timedelta):
    """A length of time. JSON has it as a number of seconds: as `typed`, if it was made of one."""

    typed: float | None = None

    def __repr__(self) -> str:
        """Return the text of a plain timedelta, which it is to programs."""
        return repr(+self)


class Outside(Struct, frozen=True):
    """A struct that is made of a value of the inside: each field of the attribute that is called so, or by `SOURCES`.

    These name another attribute, also one of an attribute, or a function of the value; None: it need not be there.
    """

    SOURCES: ClassVar[Sources] = {}

    @classmethod
    def made(cls, value: Any, /, **more: Any) -> Self:
        """Return the value as programs get it. `more` sets further fields; optional ones are present only if given."""
        names, read, changes, computed, optional = _plan(cls, tuple(more))
        found = dict(zip(names, read(value), strict=True)) | more
        for name in optional:
            if more[name] is None:
                found[name] = UNSET
        for name, change in changes:
            if (given := found[name]) is not None and given is not UNSET:
                found[name] = change(given)
        for name, compute in computed:
            found[name] = compute(value)
        return cls(**found)


def list_of(gives: Callable[[Any], _T]) -> Callable[[Any], Sequence[_T]]:
    """Return a function that does the same with each of a sequence."""
    return partial(_each, gives)


def values_of(gives: Callable[[Any], _T]) -> Callable[[Any], Mapping[str, _T]]:
    """Return a function that does the same with each of the values by name."""
    return partial(_each_value, gives)


def maybe(gives: Callable[[Any], _T]) -> Callable[[Any], _T | None]:
    """Return the same conversion for an optional value."""
    return partial(_maybe, gives)


def type_given(gives: Callable[..., Any]) -> Any:
    """Return the return type of such a function."""
    if not isinstance(gives, partial):
        return getattr(gives, "__self__", None) or get_type_hints(gives)["return"]
    inner: Any = type_given(gives.args[0])
    return {_each: Sequence[inner], _each_value: Mapping[str, inner], _maybe: inner | None}[gives.func]


def _each(gives: _Change, values: Sequence[Any]) -> Sequence[Any]:
    return [gives(value) for value in values]


def _each_value(gives: _Change, found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: gives(value) for name, value in found.items()}


def _maybe(gives: _Change, value: Any) -> Any:
    return None if value is None else gives(value)


@lru_cache(maxsize=1024, typed=True)
def length(seconds: float) -> Length:
    """Return a number of seconds as a timedelta. Cached, as most jobs have few of them; 60 and 60.0 are two in JSON."""
    made = Length(seconds=seconds)
    made.typed = seconds
    return made


def as_json(value: object) -> bytes:
    """Return the value as JSON."""
    return json.encode(value, enc_hook=as_plain)


def as_plain(value: object) -> object:
    """Return the JSON form of a value that msgspec can't encode."""
    if isinstance(value, Length):
        return value.total_seconds() if value.typed is None else value.typed
    raise NotImplementedError(type(value).__name__)


@lru_cache(maxsize=256)
def _plan(
    kind: type[Outside], given: tuple[str, ...]
) -> tuple[Sequence[str], _Change, Sequence[tuple[str, _Change]], Sequence[tuple[str, _Change]], Sequence[str]]:
    """Return the fields with attributes, what reads these, what changes fields, those that are computed, and which of
    the given ones need not be there.
    """
    hints, sources = get_type_hints(kind), kind.SOURCES
    left = [each for each in fields(kind) if each.name not in given]
    wanted = {each.name: sources.get(each.name, None if each.default is UNSET else each.name) for each in left}
    computed = [(name, source) for name, source in wanted.items() if callable(source)]
    paths = {name: source for name, source in wanted.items() if isinstance(source, str)}
    several, names = len(paths) != 1, [*paths.values()]
    read = attrgetter(*names) if names else lambda _: ()
    changes = [(name, change) for name in (*paths, *given) if (change := _change(hints[name])) is not None]
    optional = [each.name for each in fields(kind) if each.name in given and each.default is UNSET]
    return tuple(paths), read if several else lambda value: (read(value),), changes, computed, optional


def _change(hint: Any) -> _Change | None:
    """Return the conversion from an inner value; None if it stays the same."""
    if isinstance(hint, type) and issubclass(hint, Outside):
        return hint.made
    if hint in _CHANGES:
        return _CHANGES[hint]
    origin, inner = get_origin(hint), [each for each in get_args(hint) if each not in (NoneType, UnsetType, ...)]
    is_union = origin in (Union, UnionType)
    change = None if not inner or (is_union and len(inner) > 1) else _change(inner[-1])
    if change is None or is_union or not isinstance(origin, type):
        return change
    if issubclass(origin, Mapping):
        return lambda values: {key: change(value) for key, value in values.items()}
    if issubclass(origin, Sequence):
        made: Any = tuple if origin is tuple else list
        return lambda values: made(map(change, values))
    return change


_CHANGES: Final[Mapping[Any, _Change]] = {
    datetime: to_datetime,
    date: lambda moment: to_datetime(moment).date(),
    Length: length,
}
