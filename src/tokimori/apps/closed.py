"""Types of arguments: unknown keys, values that JSON would change, and bounds."""

from collections import Counter, OrderedDict, deque
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Reversible,
    Sequence,
    Set,
)
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from types import GenericAlias, MappingProxyType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

import msgspec
from msgspec import inspect

from tokimori.apps.json_text import TEXTS

Bounds = Callable[[Any], Any]
Found = tuple[Any, object, str]
"""A type, the value that stands for it, and where."""
CONVERTED: Final[Mapping[Any, tuple[type, Callable[[Any], object]]]] = MappingProxyType(
    {
        **dict.fromkeys((Iterable, Reversible, Container), (list, list)),
        **{deque: (list, deque), OrderedDict: (dict, OrderedDict), Counter: (dict, Counter)},
    }
)
"""Types that msgspec does not know: for each the type that is read in its place, and its constructor."""
_BARE: Final[Mapping[Any, Any]] = MappingProxyType(
    {
        **{kind: kind[Any, Any] for kind in (dict, Mapping, MutableMapping)},
        **{kind: kind[Any] for kind in (list, set, frozenset, Collection, Sequence, MutableSequence, Set, MutableSet)},
        tuple: tuple[Any, ...],
    }
)
"""Types without the types of their parts, and the same with `Any` for these."""
_WRITTEN: Final = (bytes, bytearray, memoryview, date, time, timedelta, Decimal, UUID, Enum, *TEXTS)
"""Types whose values JSON holds as texts: where a text is annotated they would stay texts."""
_NO_KEYS: Final = (
    *(inspect.CustomType, inspect.BoolType, inspect.NoneType, inspect.TupleType, inspect.VarTupleType),
    *(inspect.CollectionType, inspect.NamedTupleType, inspect.StructType, inspect.DataclassType),
)
"""Types of keys that no name in JSON becomes again."""


def unfolded(kind: Any, around: Collection[Any] = ()) -> Any:
    """Return the type without the names that `type X = …` gives to types. One within itself is any JSON value."""
    origin, arguments = get_origin(kind), get_args(kind)
    named = kind if origin is None else origin
    if named in around:
        return Any
    if type(named).__name__ == "TypeAliasType":  # of `typing`, or of `typing_extensions`
        value, names = named.__value__, named.__type_params__
        given = dict(zip(names, arguments, strict=False))
        wanted = tuple(given.get(each, each) for each in getattr(value, "__parameters__", ()))  # in its own order
        return unfolded(given.get(value) or (value[wanted] if given and wanted else value), (*around, named))
    parts = parts_of(kind)
    new = tuple(unfolded(each, around) for each in parts)
    if new == parts:
        return kind
    if origin is Annotated:
        return Annotated[(*new, *kind.__metadata__)]
    if origin is UnionType:
        return Union[new]  # noqa: UP007
    return kind.copy_with(new) if hasattr(kind, "copy_with") else GenericAlias(origin, new)


def bounds_of(kind: Any) -> Bounds | None:
    """Return pydantic's reading of a type whose annotations have bounds, its own or those of `annotated_types`.

    None: it has none, or pydantic is not installed. Bounds within a class are that one's own.
    """
    if not _has_bounds(kind):
        return None
    with suppress(ImportError):
        from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415  no part of ours
        from pydantic.errors import PydanticSchemaGenerationError  # noqa: PLC0415

        try:
            return TypeAdapter(kind).validate_python
        except PydanticSchemaGenerationError:  # a class that only we read is a part of it
            return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True)).validate_python
    return None


def _has_bounds(kind: Any) -> bool:
    of = {type(each).__module__.partition(".")[0] for each in getattr(kind, "__metadata__", ())}
    return not of.isdisjoint({"pydantic", "annotated_types"}) or any(map(_has_bounds, parts_of(_plain(kind))))


def check_bounds(bounds: Bounds, value: object, path: str) -> Any:
    """Return the value as pydantic reads it. Raises `msgspec.ValidationError` if it is not within the bounds."""
    try:
        return bounds(value)
    except ValueError as fault:
        raise msgspec.ValidationError(f"it is not within its bounds - at `{path}`") from fault


def check_closed(kinds: Mapping[str, Any], given: Mapping[str, object], root: str = "$.") -> None:
    """Raise `msgspec.ValidationError` for a key of a TypedDict or dataclass that it does not have: it would vanish."""
    for name in kinds.keys() & given.keys():
        for kind, value, path in _within(kinds[name], given[name], root if root == "$" else f"{root}{name}"):
            known = _keys_of(kind)
            for key in value if known is not None and isinstance(value, dict) else ():
                if known is not None and key not in known:
                    raise msgspec.ValidationError(f"Object contains unknown field `{key}` - at `{path}`")


def has_closed(kind: Any) -> bool:
    """Return whether a TypedDict or dataclass is a part of this type."""
    kind = _plain(kind)
    return _keys_of(kind) is not None or any(map(has_closed, parts_of(kind)))


def read_as(kind: Any) -> tuple[Any, Callable[[Any], object]] | None:
    """Return the type that is read in place of one of `CONVERTED`, and its constructor; None for another type."""
    if (known := CONVERTED.get(get_origin(kind) or kind)) is None:
        return None
    (plain, made), of = known, get_args(kind)
    of = (*of, int) if made is Counter and of else of  # Counter[str] names the type of its keys alone
    return GenericAlias(plain, of) if of else plain, made


def unknown_in(kind: Any) -> str | None:
    """Return the name of a class in this type that has no JSON form; None if some JSON fits."""
    with suppress(TypeError):  # one that can't be read is refused elsewhere
        return _unknown_in(inspect.type_info(_plain(kind)), ())
    return None


def _unknown_in(info: inspect.Type, around: tuple[type, ...]) -> str | None:
    """Return the name as `unknown_in` does. Classes in `around` are being looked at already."""
    parts: Sequence[inspect.Type] = ()
    match info:
        case inspect.CustomType(cls=kind):
            is_known = kind is object or kind in CONVERTED or issubclass(kind, TEXTS) or hasattr(kind, "model_validate")
            return None if is_known else kind.__name__
        case inspect.UnionType(types=kinds):
            found = [_unknown_in(each, around) for each in kinds if not isinstance(each, inspect.NoneType)]
            return None if None in found else found[0]
        case inspect.DictType(key_type=key) if isinstance(key, _NO_KEYS):
            plain = type(key).__name__.removesuffix("Type").removeprefix("Var").lower()
            return f"dict[{key.cls.__name__ if hasattr(key, 'cls') else plain}, …]"
        case inspect.DictType(key_type=key, value_type=value):
            parts = key, value
        case inspect.TupleType(item_types=kinds):
            parts = kinds
        case inspect.CollectionType(item_type=each) | inspect.Metadata(type=each):
            parts = (each,)
        case inspect.StructType(cls=made, fields=fields) | inspect.DataclassType(cls=made, fields=fields):
            parts = () if made in around else [each.type for each in fields if each.required]
            around = (*around, made)
        case _:
            pass
    return next(filter(None, (_unknown_in(each, around) for each in parts)), None)


def changed_by_json(kinds: Mapping[Any, Any], values: Mapping[Any, object]) -> tuple[str, object] | None:
    """Return the first value that JSON would change, though no type says what it is; None if there is none."""
    for name, value in values.items():
        for kind, each, path in _within(kinds[name], value, str(name)):
            is_open = _is_open(kind) or (isinstance(each, dict) and parts_of(kind)[:1] == (Any,))
            is_written = kind is str and isinstance(each, _WRITTEN) and not isinstance(each, str)
            if (is_open and not _is_json(each)) or is_written or not _checks_keys(kind, each):
                return path, each
    return None


def _checks_keys(kind: Any, value: object) -> bool:
    """Return whether the keys of a mapping of this type come back as they are: of `dict[int | str, …]` only texts."""
    parts = parts_of(kind)
    if not isinstance(value, Mapping) or len(parts) != 2 or not _is_a(kind, Mapping) or _is_open(parts[0]):
        return True
    keys = [key for key in value if not isinstance(key, str)]
    if not keys:
        return True
    with suppress(TypeError, ValueError):  # what can't be written, or does not fit, is refused elsewhere
        plain = msgspec.to_builtins(dict.fromkeys(keys), str_keys=True)
        back: dict[object, None] = msgspec.convert(plain, GenericAlias(dict, (parts[0], None)), str_keys=True)
        return back.keys() == {*keys}
    return True


def _is_json(value: object) -> bool:
    """Return whether the value itself, apart from its content, is unchanged by JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value)
    return value is None or (isinstance(value, list | str | int | float) and not isinstance(value, Enum))


def parts_of(kind: Any) -> tuple[Any, ...]:
    """Return the types of which a type is made."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Literal, Callable):
        return ()
    return arguments[:1] if origin is Annotated else arguments


def _keys_of(kind: Any) -> Mapping[str, Any] | None:
    """Return the keys that a TypedDict or dataclass has, with their types; None for another type."""
    return _keys_of_class(kind) if isinstance(kind, type) and get_origin(kind) is None else None


@lru_cache(maxsize=1024)
def _keys_of_class(kind: type) -> Mapping[str, Any] | None:
    try:
        if is_typeddict(kind):
            return get_type_hints(kind)
        if is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"):
            return get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return None
    return None


def _within(kind: Any, value: object, path: str) -> Iterator[Found]:
    """Yield the type with its value, and all that they hold."""
    kind = _plain(kind)
    yield kind, value, path
    for part in _parts(_plain(type(value)) if _is_open(kind) else kind, value, path):
        yield from _within(*part)


def _is_open(kind: Any) -> bool:
    """Return whether the type leaves its values open."""
    return kind in (Any, object) or (isinstance(kind, TypeVar) and not (kind.__bound__ or kind.__constraints__))


def _plain(kind: Any) -> Any:
    """Return the type as it is read: without a name (`NewType`), with `Any` for its parts if it names none."""
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    if (known := read_as(kind)) is not None:
        kind = known[0]
    return kind if get_args(kind) else _BARE.get(get_origin(kind) or kind, kind)


def _parts(kind: Any, value: object, path: str) -> Iterator[Found]:
    parts, keys = parts_of(kind), _keys_of(kind)
    if isinstance(value, Mapping):
        if keys is not None:
            yield from ((keys[key], each, f"{path}.{key}") for key, each in value.items() if key in keys)
            return
        if len(parts) == 2 and _is_a(kind, Mapping):
            yield from ((parts[1], each, f"{path}.{key}") for key, each in value.items())
            return
    elif keys is not None and isinstance(value, kind):
        yield from ((keys[key], getattr(value, key), f"{path}.{key}") for key in keys if hasattr(value, key))
        return
    elif isinstance(value, list | tuple | set | frozenset | deque) and (
        _is_a(kind, Iterable) or _is_a(kind, Container)
    ):
        of = parts if get_origin(kind) is tuple and parts[-1:] != (...,) else parts[:1] * len(value)
        yield from ((each, part, f"{path}[{n}]") for n, (each, part) in enumerate(zip(of, value, strict=False)))
        return
    if get_origin(kind) in (Union, UnionType, Annotated):
        yield from ((each, value, path) for each in parts)


def _is_a(kind: Any, general: type) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, general)


def from_json(kind: Any, value: Any) -> Any:
    """Return a value of a type that msgspec does not know: one that is `read_as` another, one of `TEXTS`, or a model of
    pydantic, which reads itself.
    """
    if kind is object:
        return value
    if (known := read_as(kind)) is not None:
        plain, made = known
        try:
            return made(msgspec.convert(value, plain, dec_hook=from_json, str_keys=True))
        except msgspec.ValidationError as fault:  # msgspec puts its own place before this one
            raise ValueError(str(fault)) from fault.__cause__
    if isinstance(kind, type) and issubclass(kind, TEXTS) and isinstance(value, str):
        return kind(value)
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"Expected `{getattr(kind, '__name__', kind)}`, got `{type(value).__qualname__}`")
    return validate(value)
