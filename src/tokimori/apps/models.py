"""Arguments that pydantic reads, if it is there: unions of models or dataclasses, which msgspec does not tell apart."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_origin, is_typeddict

import msgspec

from tokimori.apps.closed import parts_of
from tokimori.apps.json_text import repr_of
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    Adapters = Mapping[str, TypeAdapter[Any]]


def adapters_of(kinds: Mapping[str, Any]) -> "Adapters":
    """Return pydantic's adapters of the types that it has to read, by name."""
    wanted = {name: kind for name, kind in kinds.items() if _is_distinct(kind)}
    found = {name: _adapter_of(kind) for name, kind in wanted.items()}
    return {name: adapter for name, adapter in found.items() if adapter is not None}


def _adapter_of(kind: Any) -> "TypeAdapter[Any] | None":
    """Return pydantic's adapter of a type; None without pydantic, or if it does not know the type."""
    try:
        from pydantic import TypeAdapter  # noqa: PLC0415  no part of ours

        return TypeAdapter(kind)
    except (ImportError, NameError, RuntimeError, TypeError):  # its own errors are such
        return None


def models_of(adapters: "Adapters", given: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments that these adapters read of the given JSON. Raises `msgspec.ValidationError`."""
    found = dict[str, Any]()
    for name in adapters.keys() & given.keys():
        try:
            found[name] = adapters[name].validate_json(msgspec.json.encode(given[name]))
        except ValueError as fault:
            raise msgspec.ValidationError(f"it does not fit - at `$.{name}`") from fault
    return found


def written(adapters: "Adapters", values: Mapping[str, object], what: str) -> dict[str, Any]:
    """Return the values, with the JSON of those that these adapters write. Raises `InvalidInput`."""
    found = dict(values)
    for name in adapters.keys() & values.keys():
        try:
            found[name] = adapters[name].dump_python(values[name], mode="json", by_alias=True, warnings="error")
        except ValueError:
            raise _unfit(what, name, values[name], "is of none of its types, or can't be written as JSON") from None
    return found


def check_same(adapters: "Adapters", values: Mapping[str, object], again: Mapping[str, object], what: str) -> None:
    """Raise `InvalidInput` for a value that comes back from JSON as another one."""
    for name in adapters.keys() & values.keys():
        if again[name] != values[name]:
            raise _unfit(what, name, values[name], "JSON would change")


def _unfit(what: str, name: str, value: object, why: str) -> InvalidInput:
    shown = repr_of(value)
    return InvalidInput(
        f"{what}: {name} is {shown}, which {why}",
        field="arguments",
        value=shown[:200],
        allowed=f"a value of the type annotation of {name}",
    )


def _is_distinct(kind: Any) -> bool:
    """Return whether msgspec would read the type if it had one class with fields where there are several."""
    return not _is_read(kind) and _is_read(_with_one(kind))


def _is_read(kind: Any) -> bool:
    try:
        msgspec.convert({}, kind)
    except msgspec.ValidationError:
        return True
    except TypeError:
        return False
    return True


def _with_one(kind: Any) -> Any:
    """Return the type, with a plain object for each class with fields."""
    if is_typeddict(kind) or is_dataclass(kind) or hasattr(kind, "model_validate"):
        return dict
    parts, origin = tuple(map(_with_one, parts_of(kind))), get_origin(kind)
    if origin in (Union, UnionType):
        return Union[parts]  # noqa: UP007  nobody knows how many there are
    if not parts:
        return kind
    return parts[0] if origin is Annotated else origin[parts]
