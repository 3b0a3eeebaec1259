"""Definitions as texts: what the store keeps, and what users send."""

import re

import msgspec

from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.target import Unreadable

_FIELD = re.compile(r"field `([^`]+)`")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Definition)


def encode_definition(definition: Definition) -> bytes:
    """The text that is stored: JSON without defaults. A definition that could not be read stays as it was."""
    if isinstance(definition.target, Unreadable):
        return definition.target.text.encode()
    return _encoder.encode(definition)


def decode_definition(data: bytes | str) -> Definition:
    """Read a stored text, or one that a user sent. Raises `InvalidInput` naming the field."""
    try:
        found = _decoder.decode(data)
    except msgspec.DecodeError as fault:
        raise invalid_json(fault) from None
    except UnicodeDecodeError:
        raise InvalidInput("a definition must be UTF-8", allowed="JSON in UTF-8") from None
    if isinstance(found.target, Unreadable):
        raise InvalidInput("target: unreadable is not a kind of target", field="target", allowed="a target that runs")
    return found


def stored_definition(text: str) -> Definition:
    """Read a stored text. If it can't be read its target is `Unreadable`, so that all other jobs can still be read."""
    try:
        return decode_definition(text)
    except InvalidInput as fault:
        return Definition(target=Unreadable(text=text, why=fault.message))


def invalid_json(fault: msgspec.DecodeError, plain: object = None) -> InvalidInput:
    """Our error for one of msgspec about `plain`: `Expected …` is what is allowed, `at $.x` the field."""
    message, _, place = str(fault).partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    if found := _FIELD.search(message):
        path = f"{path}.{found[1]}".lstrip(".")
    value = plain
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return InvalidInput(f"{path}: {message}" if path else message, field=path or None, value=value, allowed=message)
