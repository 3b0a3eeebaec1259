"""The arguments of a foreign function call, as the payload of a run: a JSON object with their names. Pure."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import isfinite

import msgspec

from tokimori.errors import InvalidInput
from tokimori.translators.entries import Warnings, refusal, shown
from tokimori.translators.inert_pickle import Record, read_date, read_datetime, read_timedelta

Parameters = Mapping[str, Sequence[str]]
"""The names of a function's parameters in their order, by the function's name."""

_MOST_VALUES = 10_000
_DEEPEST = 20


def payload_of(
    warnings: Warnings, function: str, args: Sequence[object], kwargs: Mapping[object, object], parameters: Parameters
) -> str | None:
    """Return the payload with these arguments; None if there are none.

    Ours have names. A single argument needs none; those of several are in `parameters`. Raises `InvalidInput` for
    arguments without a name, and for values that are not JSON.
    """
    named = _by_name(function, args, kwargs, parameters)
    if named is None:
        return _written(_Values(warnings).plain("args[0]", args[0], 0))
    if not named:
        return None
    values = _Values(warnings)
    return _written({name: values.plain(name, value, 0) for name, value in named.items()})


def _written(plain: object) -> str:
    try:
        return msgspec.json.encode(plain).decode()
    except UnicodeEncodeError as fault:  # pickles and `json` take half a character
        raise refusal("arguments", fault.object[fault.start : fault.end], "texts in UTF-8") from None


def _by_name(
    function: str, args: Sequence[object], kwargs: Mapping[object, object], parameters: Parameters
) -> dict[str, object] | None:
    """Return the arguments by name; None for one alone, which needs no name."""
    named = {}
    for name, value in kwargs.items():
        if not isinstance(name, str):
            raise refusal("kwargs", name, "names that are texts")
        named[name] = value
    names = parameters.get(function, ())
    if len(args) == 1 and not named and not names and not isinstance(args[0], dict):
        return None
    if len(args) > len(names):
        raise InvalidInput(
            f"args: {shown(args)} have no names, and functions here take arguments by name",
            field="args",
            allowed=f"--parameters {function}=NAME,NAME: the names of its parameters in their order",
        )
    return {**dict(zip(names, args, strict=False)), **named}


class _Values:
    """Conversion of values of Python to JSON, with a count: a pickle may hold a list a million times."""

    def __init__(self, warnings: Warnings) -> None:
        self._warnings = warnings
        self._seen = 0

    def plain(self, name: str, value: object, depth: int) -> object:
        """Return the value. Raises `InvalidInput` for one that is not JSON."""
        self._seen += 1
        if self._seen > _MOST_VALUES or depth > _DEEPEST:
            allowed = f"at most {_MOST_VALUES} values, {_DEEPEST} deep"
            raise InvalidInput(f"{name}: it holds too much", field=name, allowed=allowed)
        match value:
            case float() if not isfinite(value):
                raise refusal(name, value, "JSON values: no nan, nothing infinite")
            case None | bool() | int() | float() | str():
                return value
            case tuple() | list():
                return [self.plain(f"{name}[{place}]", each, depth + 1) for place, each in enumerate(value)]
            case dict() if all(isinstance(key, str) for key in value):
                return {key: self.plain(f"{name}.{key}", each, depth + 1) for key, each in value.items()}
            case Record(name="datetime.datetime"):
                return self._warned(name, value, read_datetime(name, value).text())
            case Record(name="datetime.date"):
                return self._warned(name, value, read_date(name, value).isoformat())
            case Record(name="decimal.Decimal", arguments=(str() as number,)):
                return self._warned(name, value, number)
            case Record(name="datetime.timedelta"):
                length: timedelta = read_timedelta(name, value)
                return self._warned(name, value, length.total_seconds())
            case _:
                raise refusal(name, value, "JSON values: texts, numbers, lists, dicts, dates, decimals")

    def _warned(self, name: str, value: Record, plain: object) -> object:
        self._warnings.add(name, plain, f"it was a {value.name}, and JSON has none: the function gets this")
        return plain
