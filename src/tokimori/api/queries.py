"""Conversion of queries to values: every parameter is checked, and a fault names it and says what is allowed."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import DecodeError, Meta, Struct, convert, to_builtins
from msgspec.structs import asdict, fields
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from tokimori.errors import InvalidInput
from tokimori.model.encoding import invalid_json
from tokimori.service.views.outside import as_plain
from tokimori.spelling import hint


def members_of(views: Sequence[Struct], kind: type[Struct], names: Sequence[str]) -> Sequence[Any]:
    """Return the views with the members of these names, in that order; without names all. Raises `InvalidInput`.

    A member that a view does not have is left out.
    """
    if not names:
        return views
    known = [field.encode_name for field in fields(kind)]
    for name in names:
        if name not in known:
            raise _unknown_member(name, known)
    plain = (to_builtins(view, enc_hook=as_plain) for view in views)
    return [{name: view[name] for name in names if name in view} for view in plain]


def filters_of(query: Struct, kind: type[Any]) -> dict[str, Any]:
    """Return the parameters of a query that are filters of this kind (a `TypedDict`)."""
    return {name: value for name, value in asdict(query).items() if name in kind.__annotations__}


def _unknown_member(name: str, known: Sequence[str]) -> InvalidInput:
    message = f"fields: there is no member {name!r}{hint(name, known)}"
    return InvalidInput(message, field="fields", value=name, allowed=", ".join(known))


MOST_BODY = 1 << 20
"""The size of the largest body that is read, in bytes."""


async def read_whole(scope: Scope, receive: Receive) -> bytes | None:
    """Return the whole body; None if it is too large. Raises `ClientDisconnect` if only a part of it arrives."""
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BODY:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        body += chunk
        if len(body) > MOST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


class NoQuery(Struct, frozen=True, kw_only=True):
    """The query of an operation that has none."""


_Query = TypeVar("_Query", bound=Struct)


def read_query(request: Request, kind: type[_Query]) -> _Query:
    """Return the query parameters as a value; lists may be repeated. Raises `InvalidInput` naming the field."""
    query, hints = request.query_params, hints_of(kind)
    for name in query:
        if name not in hints:
            raise _unknown(name, query[name], hints)
    given = {name: query.getlist(name) if is_list(hints[name]) else query[name] for name in query}
    try:
        return convert(given, kind, strict=False)
    except DecodeError as fault:
        raise _invalid(invalid_json(fault, given), given, hints) from None


@lru_cache(maxsize=256)
def hints_of(kind: type[Struct]) -> Mapping[str, Any]:
    """Return the parameters of a query by their public names, with their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.encode_name: hints[field.name] for field in fields(kind)}


def is_list(hint: Any) -> bool:
    """Return whether a parameter may be repeated."""
    return any(get_origin(part) is tuple for part in _parts(hint))


def _unknown(name: str, value: str, hints: Mapping[str, Any]) -> InvalidInput:
    allowed = ", ".join(hints) or "no parameter"
    return InvalidInput(
        f"{name}: there is no such parameter{hint(name, hints)}", field=name, value=value, allowed=allowed
    )


def _invalid(fault: InvalidInput, given: Mapping[str, Any], hints: Mapping[str, Any]) -> InvalidInput:
    """Return the fault with the allowed words or range, if there are such."""
    name = (fault.field or "").partition("[")[0]
    parts = list(_parts(hints.get(name)))
    words = [word.value for part in parts if isinstance(part, type) and issubclass(part, StrEnum) for word in part]
    ranges = [f"{part.ge}..{part.le}" for part in parts if isinstance(part, Meta) and part.le is not None]
    value, allowed = given.get(name), ", ".join(words or ranges) or fault.allowed
    if not words and not ranges:
        return fault
    return InvalidInput(f"{name}: {value!r} is not allowed", field=name, value=value, allowed=allowed)


def _parts(hint: Any) -> Iterator[Any]:
    """Yield the parts of a hint."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)
