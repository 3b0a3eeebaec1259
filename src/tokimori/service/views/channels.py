"""Messages as JSON."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.message import Message
from tokimori.service.channels import FoundMessages


class MessageView(Struct, frozen=True, kw_only=True):
    """A message: `number` grows in its topic; `key` is that of no other one, unless its publisher gave it twice."""

    topic: str
    number: int
    key: str
    published: str
    by: str | None
    data: Any


class MessagesView(Struct, frozen=True, kw_only=True):
    """Messages in order, and behind which number to go on. `gap`: some of those before them are not kept any more."""

    messages: Sequence[MessageView]
    after: int
    gap: bool


class SubscriberView(Struct, frozen=True, kw_only=True):
    """Up to which number a subscriber has acknowledged the messages of a topic."""

    topic: str
    name: str
    number: int


def message_view(message: Message) -> MessageView:
    """Return the message as JSON shows it."""
    return MessageView(
        topic=message.topic,
        number=message.number,
        key=message.key,
        published=format_moment(message.at),
        by=message.by,
        data=message.data,
    )


def messages_view(found: FoundMessages) -> MessagesView:
    """Return the page as JSON shows it."""
    return MessagesView(messages=[message_view(each) for each in found.messages], after=found.after, gap=found.gap)
