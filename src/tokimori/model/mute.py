"""Muted causes of failures, as the store keeps them."""

from typing import Final

import msgspec
from msgspec import Struct

from tokimori.clock import Moment

KIND: Final = "mute"
MOST_MUTED: Final = 100
"""Causes that are muted at the same time: each look at failures reads all of them."""


class Mute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A muted cause of failures: its id, its text, from when and until when, by whom and why."""

    id: str
    cause: str
    since: Moment
    until: Moment
    by: str | None = None
    reason: str | None = None


_decoder = msgspec.json.Decoder(Mute)


def encode_mute(mute: Mute) -> str:
    """Return the text that stores keep."""
    return msgspec.json.encode(mute).decode()


def decode_mute(text: str) -> Mute:
    """Return the mute in a text of `encode_mute`. Raises `ValueError`."""
    return _decoder.decode(text)
