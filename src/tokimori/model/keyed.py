"""Requests that were sent with a key of their own (`Idempotency-Key`)."""

from typing import Final

import msgspec
from msgspec import Struct

from tokimori.clock import DAY, Moment

KIND: Final = "keyed"
KEPT: Final = DAY
"""For so long a key is known."""


class Keyed(Struct, frozen=True, kw_only=True):
    """First request of a key: its time, a digest of its content, and the key of its run or job."""

    at: Moment
    digest: str
    made: str


_decoder = msgspec.json.Decoder(Keyed)


def encode_keyed(keyed: Keyed) -> str:
    """Return the text that stores keep."""
    return msgspec.json.encode(keyed).decode()


def decode_keyed(text: str) -> Keyed:
    """Return the request in a text of `encode_keyed`. Raises `ValueError`."""
    return _decoder.decode(text)
