"""Texts that a store can keep: values as JSON, for payloads and results, and errors in words."""

import json
import math
import re
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Set
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from tokimori.errors import InvalidInput
from tokimori.executors.reported import MOST_TEXT

TEXTS = (
    *(PurePath, Fraction, ZoneInfo),
    *(IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network),
)
"""Types that msgspec does not know: their values are texts, and made of these again."""
WORDS = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON does not have, as they stand in a result."""
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""An escaped NUL in JSON: behind an even number of backslashes, as these are escaped by one another."""
_CUT = "\n[... left out ...]\n"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
"""Made once: `json.loads` would make one for each text."""


def text_of(value: object, what: str) -> str:
    """Return the value as JSON. Raises `InvalidInput` if it can't be."""
    try:
        text = msgspec.json.encode(value, enc_hook=_to_json).decode()
        if "null" in text:  # msgspec writes numbers so that JSON does not have
            plain = msgspec.to_builtins(value, enc_hook=_to_json)
            finite = _finite(plain, _word if what == "result" else _refuse_number)  # what is done stays done
            text = msgspec.json.encode(finite).decode()
        return text
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise InvalidInput(
            f"{what}: {fault}", field=what, allowed="JSON, dataclasses, msgspec structs, pydantic models, dates, UUIDs"
        ) from None


def kept(text: str, what: str) -> str:
    """Return the JSON itself, if it can be kept. Raises `InvalidInput`."""
    size, has_nul = len(text.encode()), "\\u0000" in text and _NUL.search(text) is not None
    if size > MOST_TEXT or has_nul:
        why = "a text with a NUL" if has_nul else f"{size} bytes of JSON"
        allowed = f"at most {MOST_TEXT} bytes, and no NUL"
        raise InvalidInput(f"{what}: {why} can't be stored", field=what, value=size, allowed=allowed)
    return text


def clean(text: str) -> str:
    """Return a text that every store can keep."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def value_of(payload: str) -> Any:
    """Return the JSON value of a payload; a text that is no JSON is itself."""
    try:
        return _DECODER.decode(payload)
    except (ValueError, RecursionError):
        return payload


def _finite(value: object, said: Callable[[float], str]) -> object:
    """Return a value of builtin types with `said` of each number that JSON does not have."""
    match value:
        case float() if not math.isfinite(value):
            return said(value)
        case dict():
            return {key: _finite(each, said) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each, said) for each in value]
        case _:
            return value


def _refuse_number(number: float) -> str:
    raise ValueError(f"JSON can't hold the number {number}")


def _word(number: float) -> str:
    return WORDS[0 if math.isnan(number) else 1 if number > 0 else 2]


def _to_json(value: Any) -> Any:
    if isinstance(value, TEXTS):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | deque | range):
        return list(value)
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a value of the type {type(value).__qualname__} can't be written as JSON")
    return dump(mode="json", by_alias=True)  # by the names under which it is read


def clean_and_cut(text: str) -> str:
    """Return a text that every store can keep, its middle left out if it is too long."""
    found = clean(text).encode()
    if len(found) > MOST_TEXT:
        edge = MOST_TEXT // 2 - len(_CUT)
        return found[:edge].decode(errors="ignore") + _CUT + found[-edge:].decode(errors="ignore")
    return found.decode()


def repr_of(value: object) -> str:
    """Return how a value is shown, which code of the program may say."""
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__qualname__}"


def error_words(fault: BaseException) -> str:
    """Return the kind and the text of an error, which code of the program may write."""
    kind = type(fault).__qualname__
    try:
        text = str(fault)
        return f"{kind}: {text}" if text else kind
    except BaseException as another:
        return f"{kind}, whose text can't be read: {type(another).__qualname__}"


def error_traceback(fault: BaseException) -> str:
    """Return the traceback of an error in code of the program."""
    try:
        return "".join(traceback.format_exception(_below(fault)))
    except BaseException as another:
        return f"{type(fault).__qualname__}, whose traceback can't be written: {type(another).__qualname__}\n"


def _below(fault: BaseException) -> BaseException:
    """Return the exception, its traceback without our own frames at the top."""
    frames = fault.__traceback__
    while (
        frames is not None
        and frames.tb_next is not None
        and "tokimori" in frames.tb_frame.f_globals.get("__name__", "")
    ):
        frames = frames.tb_next
    return fault.with_traceback(frames)
