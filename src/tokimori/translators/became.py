"""Result of one key of foreign settings."""

from collections.abc import Mapping
from datetime import date, time

from msgspec import Struct, field

from tokimori.config.value import MASK
from tokimori.spelling import nearest

_MOST_NUMBER = 2**63
"""Python writes no number of thousands of digits."""


class Became(Struct, frozen=True, kw_only=True):
    """A foreign key, and our settings for it.

    `given` is its value without passwords. `why` says why there is no setting, or what differs here; `env` is its
    section, which becomes `[env.NAME]`.
    """

    key: str
    given: str
    settings: Mapping[str, object] = field(default_factory=dict)
    why: str = ""
    env: str | None = None


def cited(value: object) -> str:
    """Return the value in a line; of a long one the beginning."""
    match value:
        case str():
            text = value
        case bool() | int() | float() if abs(value) <= _MOST_NUMBER:
            text = str(value).lower()
        case date() | time():  # a datetime is a date
            text = value.isoformat()
        case _:
            text = f"a {type(value).__name__}"
    if len(text) > 60:
        return repr(text[:60] + "…")
    return text if text.isprintable() else repr(text)


def unknown(key: str, names: Mapping[str, object], system: str, env: str | None = None) -> Became:
    """Return the result for a key that is not in that system's documentation. Its value may be a password."""
    meant = nearest(key, names)
    hint = "" if meant is None else f"; did you mean {meant}?"
    return Became(key=key, given=MASK, why=f"{system} has no such key: it is left out{hint}", env=env)
