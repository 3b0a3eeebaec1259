"""Differences between a job and its declaration: which may follow it, and what somebody has edited. Pure."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import Enum, auto
from hashlib import sha256
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.documents import DocumentKind


class DeclarationState(Enum):
    """Relations of a job in the store to its declaration."""

    SAME = auto()
    AS_DECLARED = auto()
    """As it was declared last: it may follow what is declared now."""
    EDITED = auto()
    """Somebody has edited it since it was declared."""
    STRANGE = auto()
    """A job that its present app has not declared before."""


class FieldChange(Struct, frozen=True, kw_only=True):
    """A field, such as `retry.attempts`, with its old and its new value; None is its default."""

    field: str
    old: Any
    new: Any


def digest_of(definition: Definition) -> str:
    """Return a digest that is equal for definitions that mean the same."""
    return digest_of_fields(fields_of(definition))


def digest_of_fields(fields: Mapping[str, Any]) -> str:
    """Return a digest that is equal for fields that say the same."""
    text = msgspec.json.encode(msgspec.to_builtins(dict(fields)), order="sorted")
    return sha256(text).hexdigest()[:32]


def declaration_state(found: Definition, wanted: str, known: str | None) -> DeclarationState:
    """Return the job's standing. `wanted` and `known` are digests of the present and the last declaration."""
    digest = digest_of(found)
    if digest == wanted:
        return DeclarationState.SAME
    if known is None:
        return DeclarationState.STRANGE
    return DeclarationState.AS_DECLARED if digest == known else DeclarationState.EDITED


def differences(old: Definition, new: Definition) -> tuple[FieldChange, ...]:
    """Return the fields in which they differ, by name."""
    return changes_between(fields_of(old), fields_of(new))


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Return the fields that differ, by name."""
    before, after = (dict(_flat(each)) for each in (old, new))
    return tuple(
        FieldChange(field=name, old=before.get(name), new=after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _flat(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields, with one entry for each key of a mapping (`retry`, `env`)."""
    for name, value in msgspec.to_builtins(dict(fields)).items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", each) for key, each in value.items())
        else:
            yield name, value


class DeclaredDigests(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Digests of what an app declared last for each job, or for some of them; or the `version` that has declared it."""

    jobs: dict[str, str]
    version: str = ""


AppVersion = int | float | date | str
"""Version of an app: a number, a date or a datetime, also as a text. Dates follow all numbers."""


def app_version(given: object) -> str:
    """Return the version of an app as a text; "": it has none. Raises `InvalidInput`."""
    text = "" if given is None else given.isoformat() if isinstance(given, date) else str(given)
    is_number = version_order(text)[0] == 0
    if is_number and isinstance(given, str) and not given.isdecimal():
        raise InvalidInput(
            f"version: {given!r} is a number as a text: as one 1.10 would be older than 1.9",
            field="version",
            value=given,
            allowed="a whole number such as 110, or a date or a datetime, such as 2026-11-29",
        )
    return text


def version_order(version: str) -> tuple[int, float]:
    """Return a key by which versions are compared: none, numbers, dates. Raises `InvalidInput`."""
    if not version:
        return -1, 0.0
    with suppress(ValueError):
        if isfinite(number := float(version)):
            return 0, number
    with suppress(ValueError):
        moment = datetime.fromisoformat(version)
        return 1, (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    message = f"version: {version!r} is neither a number nor a date"
    allowed = "a number such as 7, a date or a datetime, such as 2026-11-29 or 2026-11-29T20:00:00Z"
    raise InvalidInput(message, field="version", value=version, allowed=allowed)


APPS = DocumentKind(
    "app",
    lambda known: msgspec.json.encode(known, order="sorted").decode(),
    lambda text: msgspec.json.decode(text, type=DeclaredDigests),
)


def without_count(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without the one that no definition has: it is counted down, and said only at the first."""
    return {name: value for name, value in fields.items() if name != "runs_remaining"}
