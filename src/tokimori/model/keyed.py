"""What is known of a request that was sent with a key of its own (`Idempotency-Key`)."""

from typing import Final

import msgspec
from msgspec import Struct

from tokimori.clock import DAY, Moment

KIND: Final = "keyed"
KEPT: Final = DAY
"""For so long a key is known."""


class Keyed(Struct, frozen=True, kw_only=True):
    """When a request came first, a digest of what it said, and the key under which its run or job is made."""

    at: Moment
    digest: str
    made: str


_decoder = msgspec.json.Decoder(Keyed)


def encode_keyed(keyed: Keyed) -> str:
    """The text that stores keep."""
    return msgspec.json.encode(keyed).decode()


def decode_keyed(text: str) -> Keyed:
    """What is known, in a text of `encode_keyed`. Raises `ValueError`."""
    return _decoder.decode(text)
