"""Subscribers: how far a named one has got in a topic. It is a document, so that it is known at every node."""

import msgspec
from msgspec import Struct

from tokimori.clock import Moment

KIND = "subscriber"


class Subscriber(Struct, frozen=True, kw_only=True):
    """The number of the last message that it has acknowledged, and when it did so."""

    number: int
    at: Moment


_decoder = msgspec.json.Decoder(Subscriber)


def encode_subscriber(subscriber: Subscriber) -> str:
    """Return the text that stores keep."""
    return msgspec.json.encode(subscriber).decode()


def decode_subscriber(text: str) -> Subscriber:
    """Return the subscriber in a text of `encode_subscriber`. Raises `ValueError`."""
    return _decoder.decode(text)


def subscriber_name(topic: str, name: str) -> str:
    """Return the name of its document."""
    return f"{topic}/{name}"
