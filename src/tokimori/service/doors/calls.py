"""Calls: the methods of the service as they go over a wire, by name. Pure.

Arguments and results are JSON, written and read by the annotations of the methods themselves, so that a method is said
in one place (docs/decisions/0042).
"""

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidInput
from tokimori.service.search.jobs import FoundJobs
from tokimori.service.search.runs import FoundRuns
from tokimori.service.service import table
from tokimori.service.validation import job_fields, json_of

Method = Callable[..., Any]

_FIELDS_OF_A_JOB = frozenset({"add", "add_since", "update"})
_STRUCTURED = frozenset({"jobs", "record", "runs", "starts"})
"""Arguments that are values of ours: they are read by their annotation, all others by the method itself."""

_OF_USERS = frozenset({"data", "message", "payload", "result"})
"""Arguments that are values of users, whose types are theirs: none becomes another one."""
_READ_APART = frozenset({"at", "payload"})
"""Members of arguments that are read by their own names."""


class Call(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call: `author` is who orders, `time_zone` the zone of jobs that name none (None: that of the node)."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    author: str | None = None
    time_zone: str | None = None


@lru_cache(maxsize=1)
def offered() -> Mapping[str, Method]:
    """Return the methods by name, such as `jobs.trigger`."""
    return {name: each.method for name, each in table().items() if each.door}


def result_of(method: Method) -> Any:
    """Return the return type of the method."""
    return _hints(method)["return"]


def is_list(method: Method) -> bool:
    """Return whether the method's result may be long."""
    result = result_of(method)
    return result in (FoundJobs, FoundRuns) or get_origin(result) in (Sequence, Mapping)


@lru_cache(maxsize=256)
def _hints(method: Method) -> Mapping[str, Any]:
    return get_type_hints(method)


def written(
    method: Method, args: Sequence[object], kwargs: Mapping[str, object], *, author: str | None, time_zone: str | None
) -> bytes:
    """Return the call as JSON. Raises `InvalidInput` for what JSON can't hold, and `TypeError` for wrong arguments."""
    inspect.signature(method).bind(None, *args, **kwargs)
    names = [name for name in inspect.signature(method).parameters if name != "self"]
    if (method.__name__ in _FIELDS_OF_A_JOB and "fields" in names) or "changes" in names:
        kwargs = job_fields(kwargs)
    sent = Call(
        args=[_sent(name, value) for name, value in zip(names, args, strict=False)],
        kwargs={name: _sent(name, value) for name, value in kwargs.items()},
        author=author,
        time_zone=time_zone,
    )
    return msgspec.json.encode(sent)


def arguments(method: Method, call: Call) -> tuple[list[object], dict[str, object]]:
    """Return the arguments as the method takes them. Raises `InvalidInput`."""
    try:
        bound = inspect.signature(method).bind(None, *call.args, **call.kwargs)
    except TypeError as fault:
        raise InvalidInput(f"arguments: {fault}", field="arguments", allowed="those of the method") from None
    for name in _STRUCTURED & bound.arguments.keys():
        try:
            bound.arguments[name] = msgspec.convert(bound.arguments[name], _hints(method)[name])
        except msgspec.ValidationError:
            value = bound.arguments[name]
            message = f"{name}: {value!r} is not what {method.__name__} takes"
            raise InvalidInput(message, field=name, value=value, allowed="what the client sends") from None
    return list(bound.args[1:]), bound.kwargs


def _sent(field: str, value: object) -> object:
    """Return the value in the form that JSON has. Raises `InvalidInput`, also for what holds itself."""
    try:
        return _plain(field, value)
    except RecursionError:
        message = f"{field}: it is nested too deeply for JSON, or holds itself"
        raise InvalidInput(message, field=field, allowed="a JSON value") from None


def _plain(field: str, value: object) -> object:
    """Return the value in the form that JSON has. Raises `InvalidInput`."""
    match value:
        case Mapping() | list() | tuple() if field in _OF_USERS:
            return msgspec.Raw(json_of(field, dict(value) if isinstance(value, Mapping) else list(value)).encode())
        case timedelta() if field == "at":  # from now
            return f"{value.total_seconds():f}s"
        case timedelta():
            return value.total_seconds()
        case datetime() if value.utcoffset() is None:
            raise InvalidInput(
                f"{field}: {value!r} has no time zone", field=field, value=value, allowed="an aware datetime"
            )
        case date():
            return value.isoformat()
        case ZoneInfo():
            return value.key
        case os.PathLike():
            return os.fspath(value)
        case Mapping():
            return {_key(field, key): _plain(key if key in _READ_APART else field, each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(field, each) for each in value]
        case Set():
            return sorted((_plain(field, each) for each in value), key=str)
        case float() | bytes() | bytearray() | memoryview() if not _is_finite(value):  # bytes would go as a text
            raise _no_json(field, value)
        case _:
            return _encodable(field, str.__str__(value) if isinstance(value, str) else value)  # of a phrase the text


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _key(field: str, key: object) -> str:
    if isinstance(key, str):
        return key
    raise _no_json(field, key)


def _encodable(field: str, value: object) -> object:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise _no_json(field, value) from None
    return value


def _no_json(field: str, value: object) -> InvalidInput:
    return InvalidInput(f"{field}: JSON can't hold {value!r}", field=field, value=value, allowed="a JSON value")
