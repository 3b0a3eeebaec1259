"""Arguments that pydantic reads, if it is there: unions of models or dataclasses, which msgspec does not tell apart."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cached_property
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_origin, is_typeddict

import msgspec

from tokimori.apps.closed import from_json, parts_of
from tokimori.apps.json_text import repr_of
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    Adapters = Mapping[str, TypeAdapter[dict[str, Any]]]


def adapters_of(kinds: Mapping[str, Any]) -> "Adapters":
    """Return pydantic's adapters of the types that it has to read, by name."""
    wanted = {name: kind for name, kind in kinds.items() if _is_distinct(kind)}
    found = {name: _adapter_of(kind, extra="forbid") for name, kind in wanted.items()}
    return {name: adapter for name, adapter in found.items() if adapter is not None}


def _adapter_of(kind: Any, *, extra: Literal["forbid", "ignore"]) -> "TypeAdapter[dict[str, Any]] | None":
    """Return pydantic's adapter of a value of this type by name; None without pydantic, or if it does not know it.

    `extra` is for unknown keys of dataclasses: a model has its own word. Bytes are as msgspec writes them.
    """
    try:
        from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415  no part of ours

        by_name: Any = GenericAlias(dict, (str, kind))  # a class with fields takes a configuration only as a part
        return TypeAdapter(by_name, config=ConfigDict(val_json_bytes="base64", extra=extra))
    except (ImportError, NameError, RuntimeError, TypeError):  # its own errors are such
        return None


def models_of(adapters: "Adapters", given: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments that these adapters read of the given JSON. Raises `msgspec.ValidationError`."""
    found = dict[str, Any]()
    for name in adapters.keys() & given.keys():
        try:
            found |= adapters[name].validate_json(msgspec.json.encode({name: given[name]}))
        except ValueError as fault:
            raise msgspec.ValidationError("it does not fit - at `$`") from fault
    return found


class Results:
    """Results of a type. Pydantic, if it is there, reads what msgspec can't: a union of two dataclasses."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    @cached_property
    def _adapter(self) -> "TypeAdapter[dict[str, Any]] | None":
        return _adapter_of(self._kind, extra="ignore")  # made once: that takes as long as to read fifty results

    def read(self, given: object, *, strict: bool = True) -> Any:
        """Return the value that this JSON says. Raises what msgspec and pydantic do."""
        try:
            return msgspec.convert(given, self._kind, strict=strict, dec_hook=from_json, str_keys=True)
        except TypeError:
            if self._adapter is None:
                raise
            return self._adapter.validate_json(msgspec.json.encode({"": given}))[""]


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
