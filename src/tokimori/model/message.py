"""Messages that programs send each other by channels. A message is an entry of a stream."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.document import texts_of
from tokimori.model.sizes import check_depth
from tokimori.model.stream import Numbered
from tokimori.model.words import check_text

KIND: Final = "message"
LARGEST: Final = 2**16
"""Bytes of a message as JSON. Keep larger data elsewhere, and say in the message where."""


class Message(Struct, frozen=True, kw_only=True):
    """A message: `number` grows in its topic. `key` is unique, unless its publisher gave it twice.

    `at` is when it was published, by the store's time; `by` is the publisher (None: unknown); `data` is a JSON value.
    """

    topic: str
    number: int
    key: str
    at: Moment
    by: str | None
    data: Any


def message_of(topic: str, found: Numbered) -> Message:
    """Return the message in an entry of the topic."""
    entry = found.entry
    return Message(
        topic=topic,
        number=found.number,
        key=entry.key,
        at=entry.at,
        by=entry.by,
        data=msgspec.json.decode(entry.body),
    )


def check_message(text: str) -> bytes:
    """Return the JSON of a message, if that can be kept. Raises `InvalidInput`."""
    check_text("message", text)
    body = text.encode()
    check_depth(body)
    size = len(body)
    if size > LARGEST:
        allowed = f"at most {LARGEST} bytes of JSON"
        raise InvalidInput(f"message: it is too large, {size} bytes", field="message", value=size, allowed=allowed)
    return body


SUBSCRIBER_KIND = "subscriber"


class Subscriber(Struct, frozen=True, kw_only=True):
    """Subscriber of a topic: the number of the last message that it acknowledged, and when it did so."""

    number: int
    at: Moment


encode_subscriber, decode_subscriber = texts_of(Subscriber)


def subscriber_name(topic: str, name: str) -> str:
    """Return the name of its document."""
    return f"{topic}/{name}"
