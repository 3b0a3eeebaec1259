"""Values as JSON, as payloads and results are kept."""

import json
from typing import Any

import msgspec

from tokimori.errors import InvalidInput
from tokimori.executors.reported import MOST_TEXT


def text_of(value: object, what: str) -> str:
    """The value as JSON. Raises `InvalidInput` where it can't be."""
    try:
        return msgspec.json.encode(value, enc_hook=_to_json).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise InvalidInput(
            f"{what}: {fault}", field=what, allowed="JSON, dataclasses, msgspec structs, pydantic models, dates, UUIDs"
        ) from None


def kept(text: str, what: str) -> str:
    """The JSON itself, if it can be kept. Raises `InvalidInput`."""
    size = len(text.encode())
    if size > MOST_TEXT or "\\u0000" in text:
        raise InvalidInput(
            f"{what}: {size} bytes of JSON can't be kept",
            field=what,
            value=size,
            allowed=f"at most {MOST_TEXT} bytes, and no NUL",
        )
    return text


def clean(text: str) -> str:
    """A text that every store can keep."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def value_of(payload: str) -> Any:
    """The JSON value of a payload; a text that is no JSON is itself."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return payload


def _to_json(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a value of the type {type(value).__qualname__} can't be written as JSON")
    return dump(mode="json", by_alias=True)  # by the names under which it is read
