"""Values as JSON, as payloads and results are kept."""

import json
from typing import Any

import msgspec

from tokimori.errors import InvalidInput


def text_of(value: object, what: str) -> str:
    """The value as JSON. Raises `InvalidInput` where it can't be."""
    try:
        return msgspec.json.encode(value, enc_hook=_to_json).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise InvalidInput(
            f"{what}: {fault}", field=what, allowed="JSON, dataclasses, msgspec structs, pydantic models, dates, UUIDs"
        ) from None


def value_of(payload: str) -> Any:
    """The JSON value of a payload; a text that is no JSON is itself."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return payload


def _to_json(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__qualname__} can't be written as JSON")
    return dump(mode="json")
