"""Toasts: outcomes of acts, shown by the next page. A short-lived cookie, signed by the door, carries each."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import Struct
from msgspec.structs import replace

COOKIE = "tokimori-toast"
LASTS = 30
"""Seconds for which a toast waits for its page."""
MOST_TEXT = 600
MOST_BYTES = 2_800
"""Browsers keep cookies of 4,096 characters, and base64 needs four for three bytes."""
MOST_UNDONE = 40
"""Number of ids that the cookie can carry, so that an act can be undone."""


class Toast(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Receipt or refusal. `to` is an address with more, `command` the one that mends a refusal in a terminal."""

    head: str
    text: str = ""
    bad: bool = False
    to: str | None = None
    command: str | None = None
    undo: str | None = None
    """The act that takes it back."""
    on: tuple[str, ...] = ()
    """The things to which it is done then."""
    once: str | None = None
    """A text that is shown at once, and never carried by a cookie."""


def sealed(toast: Toast, key: bytes) -> str:
    """Return the value of the cookie. One that is too long for browsers says less."""
    toast = replace(toast, once=None)
    if len(msgspec.json.encode(toast)) > MOST_BYTES:
        toast = replace(toast, head=toast.head[:200], text=toast.text[:200], undo=None, on=())
    text = urlsafe_b64encode(msgspec.json.encode(toast)).decode()
    return f"{text}.{_seal(text, key)}"


def opened(value: str, key: bytes) -> Toast | None:
    """Return the toast in a cookie; None if this door has not made it."""
    text, _, seal = value.partition(".")
    if not hmac.compare_digest(seal.encode(), _seal(text, key).encode()):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(text), type=Toast)
    except (msgspec.DecodeError, ValueError):
        return None


def _seal(text: str, key: bytes) -> str:
    return hmac.new(key, f"toast {text}".encode(), hashlib.sha256).hexdigest()
