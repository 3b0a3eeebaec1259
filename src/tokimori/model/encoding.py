"""Definitions as texts: what the store keeps, and what users send."""

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.policies import Retry
from tokimori.model.target import Unreadable

_FIELD = re.compile(r"field `([^`]+)`")
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]+)`(?: (?P<bound>[<>]=?) (?P<limit>[-0-9.]+))?")
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "names with values (an object, a dict)",
}


class _Losses(Struct, frozen=True, kw_only=True):
    """Number of attempts that a retry policy allows to be lost."""

    lost_attempts: int | Literal["unlimited"] = 3


class _Limits(Struct, frozen=True, kw_only=True):
    """Terms of a definition that limit, order or forbid its runs."""

    schedule: str | None = None
    queue: str = "default"
    priority: int = 0
    max_running: int | None = None
    max_waiting: int | None = None
    semaphores: tuple[str, ...] = ()
    rate_limit: str | None = None
    concurrency_key: str | None = None
    max_running_per_key: int = 1
    apart: bool = False
    retry: _Losses = _Losses()
    moved: Moment | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Definition)


def encode_definition(definition: Definition) -> bytes:
    """Return the text that is stored: JSON without defaults. A definition that could not be read stays as it was."""
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
    """Read a stored text. If it can't be read its target is `Unreadable`, so that all other jobs can still be read.

    Terms that claims and new runs need are still read, as far as they are there: stores have them in columns, and a
    pause of the job writes these anew.
    """
    try:
        return decode_definition(text)
    except InvalidInput as fault:
        return Definition(target=Unreadable(text=text, why=fault.message), **_limits_in(text))


def definition_of(text: str | None) -> Definition | None:
    """Return the definition for a claimed run; None if the job is gone."""
    return None if text is None else stored_definition(text)


def _limits_in(text: str) -> dict[str, Any]:
    try:
        limits = msgspec.json.decode(text, type=_Limits)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    fields = structs.asdict(limits) | {"retry": Retry(lost_attempts=limits.retry.lost_attempts)}
    if fields.pop("schedule") is not None and limits.max_running is None:
        fields["max_running"] = 1
    return fields


def invalid_json(fault: msgspec.DecodeError, plain: object = None) -> InvalidInput:
    """Return our error for one of msgspec about `plain`: `Expected …` is what is allowed, `at $.x` the field."""
    why, _, place = str(fault).partition(" - at `$")
    message = allowed_in(why) or why
    path = place.rstrip("`").lstrip(".")
    if found := _FIELD.search(why):
        path = f"{path}.{found[1]}".lstrip(".")
    value = plain
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if "missing required" in why:
        return InvalidInput(f"{path}: it is missing", field=path, allowed="a value")
    what = message if message == why else f"{'the value' if value is None else repr(value)} is not {message}"
    return InvalidInput(f"{path}: {what}" if path else what, field=path or None, value=value, allowed=message)


def allowed_in(said: str) -> str | None:
    """Return the allowed values in plain words, if msgspec's message has them; else None."""
    found = _EXPECTED.match(said)
    if found is None:
        return None
    kinds = [_KINDS.get(kind, kind) for kind in found["kinds"].split(" | ") if kind != "null"]
    bound = f" {found['bound']} {found['limit'].removesuffix('.0')}" if found["bound"] else ""
    return " or ".join(kinds) + bound
