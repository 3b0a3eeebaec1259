"""Messages as JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct

from tokimori.service.views.outside import Outside, Sources


class Message(Outside, frozen=True, kw_only=True):
    """A message: `number` grows in its topic; `key` is that of no other one, unless its publisher gave it twice."""

    SOURCES: ClassVar[Sources] = {"published": "at"}

    topic: str
    number: int
    key: str
    published: datetime
    by: str | None
    data: Any


class FoundMessages(Outside, frozen=True, kw_only=True):
    """Messages in order, and the number after which to go on. `gap`: some earlier messages are no longer stored."""

    messages: Sequence[Message]
    after: int
    gap: bool


class Channel(Struct, frozen=True, kw_only=True):
    """A topic to which something was published that is still stored."""

    topic: str


class Subscriber(Struct, frozen=True, kw_only=True):
    """Up to which number a subscriber has acknowledged the messages of a topic."""

    topic: str
    name: str
    number: int
