"""Channels as programs and people use them: they publish messages to a topic, and subscribe to it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from tokimori.engine.streams import Streams
from tokimori.errors import AlreadyExists, InvalidInput, NotFound
from tokimori.model.access_token import Role
from tokimori.model.ids import RandomBytes, uuid7
from tokimori.model.message import (
    KIND,
    SUBSCRIBER_KIND,
    Message,
    Subscriber,
    check_message,
    decode_subscriber,
    encode_subscriber,
    message_of,
    subscriber_name,
)
from tokimori.model.stream import LARGEST_NUMBER, Entry, Numbered, check_topic
from tokimori.model.words import check_text, check_word
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.access import WHOLE
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.operation import M, Part, operation, stream
from tokimori.service.store_calls import Now
from tokimori.service.validation import Span, checked, json_of, seconds_of
from tokimori.service.views.channels import Channel
from tokimori.service.views.channels import FoundMessages as MessagesView
from tokimori.service.views.channels import Message as MessageView

EVERY = 0.25
"""Seconds between two looks for the message for which somebody waits."""


class Topics:
    """State that all users of channels in this process share."""

    def __init__(self, store: DocumentStore, random: RandomBytes) -> None:
        self.streams = Streams(store, KIND, random)
        self._looks: dict[tuple[str, int], asyncio.Task[bool]] = {}
        """By topic and number: a reader who waits after a number that was never given delays no other."""

    async def wait(self, topic: str, after: int, seconds: float) -> None:
        """Wait for a message after that number, for `seconds` at most. May raise `StoreError`."""
        clock = asyncio.get_running_loop().time
        ends = clock() + seconds
        while (left := ends - clock()) > 0:
            look = self._looks.get((topic, after))
            if look is None:
                look = self._looks[topic, after] = asyncio.create_task(self._wait_and_read(topic, after))
                look.add_done_callback(_read_result)
            await asyncio.wait([look], timeout=left)
            if look.done() and (look.cancelled() or look.result()):
                return

    async def _wait_and_read(self, topic: str, after: int) -> bool:
        try:
            await asyncio.sleep(EVERY)
            return bool(await self.streams.read(topic, after, 1))
        finally:
            del self._looks[topic, after]


def _read_result(look: asyncio.Task[bool]) -> None:
    """Mark the look's error as seen. Each waiting caller raises it; without one it concerns nobody."""
    if not look.cancelled():
        look.exception()


log = logging.getLogger(__name__)

SUBSCRIBERS = DocumentKind(SUBSCRIBER_KIND, encode_subscriber, decode_subscriber)
LONGEST_WAIT = 60.0
"""Seconds for which one call waits at most."""
MOST_READ = 50
"""Messages of one answer."""
MOST_TOPICS = 200
"""Topics of one answer: each costs a read."""
MOST_BYTES = 512 * 1024
"""Of their bodies, unless the first alone has more: a node makes an answer in one step of its loop."""
FOLLOW_WAIT = 20.0
LONGEST_KEY = 255


class FoundMessages(Struct, frozen=True, kw_only=True):
    """Messages in order, and the number after which to go on. `gap`: some earlier messages are no longer stored."""

    messages: Sequence[Message]
    after: int
    gap: bool = False


class Channels(Part[M]):
    """Messages by topics. Every method may raise `StoreError`."""

    noun, word = "channels", "channel"

    def __init__(self, store: DocumentStore, topics: Topics, now: Now, random: RandomBytes, author: str | None) -> None:
        self._subscribers = Documents(store, SUBSCRIBERS, random)
        self._topics = topics
        self._now = now
        self._random = random
        self._author = author

    @operation(Role.OPERATE, WHOLE, doing="Using a channel", gives=MessageView.made)
    async def publish(self, topic: str, message: Any, key: str | None = None) -> Message:
        """Publish a JSON value of at most 64 KiB.

        When this returns, the message is stored after all earlier ones. If the store does not answer, it may or may not
        be published. Publish it again with the same `key`, so that subscribers can recognise the repetition. Raises
        `InvalidInput`, and `Conflict` while too many publish at the same moment.
        """
        checked_topic, body = check_topic("topic", topic), check_message(json_of("message", message))
        now = await self._now()
        named = uuid7(now, self._random) if key is None else _checked_key(key)
        entry = Entry(at=now, by=self._author, key=named, body=msgspec.Raw(body))
        number = await self._topics.streams.append(checked_topic, entry)
        return message_of(checked_topic, Numbered(number=number, entry=entry))

    @operation(Role.READ, WHOLE)
    async def list(self, after: str | None = None, limit: int = MOST_TOPICS) -> Sequence[Channel]:
        """List the topics that have messages, by name, from the first one behind `after`. Raises `InvalidInput`."""
        behind = "" if after is None else check_topic("after", after)
        most = checked("limit", limit, MOST_TOPICS)
        return [Channel(topic=each) for each in await self._topics.streams.topics(behind, most)]

    @operation(Role.READ, WHOLE, gives=MessagesView.made)
    async def read(
        self,
        topic: str,
        after: int | None = None,
        name: str | None = None,
        wait: Span = 0.0,
        limit: int = MOST_READ,
    ) -> FoundMessages:
        """Return the messages after the number `after`.

        Wait for the first one for `wait` seconds. By default these are the messages that the subscriber `name` has not
        acknowledged; a new subscriber gets all that are stored. Without a name only new messages are returned. Raises
        `InvalidInput`.
        """
        checked_topic, most = check_topic("topic", topic), checked("limit", limit, MOST_READ)
        seconds = min(LONGEST_WAIT, seconds_of("wait", wait))
        begin = await self._begin(checked_topic, after, name)
        found = await self._topics.streams.read(checked_topic, begin, most)
        if not found and seconds:
            await self._topics.wait(checked_topic, begin, seconds)
            found = await self._topics.streams.read(checked_topic, begin, most)
        found = _as_many_as_fit(found)
        return FoundMessages(
            messages=[message_of(checked_topic, each) for each in found],
            after=found[-1].number if found else begin,
            gap=bool(found) and 0 < begin < found[0].number - 1,
        )

    async def _begin(self, topic: str, after: int | None, name: str | None) -> int:
        known = 0 if name is None else await self._position(topic, check_subscriber(name))
        if after is not None:
            return checked("after", after, LARGEST_NUMBER, least=0)
        return known if name is not None else await self._topics.streams.newest(topic)

    async def _position(self, topic: str, name: str) -> int:
        with suppress(NotFound):
            return (await self._subscribers.get(subscriber_name(topic, name))).number
        return 0

    @operation(Role.OPERATE, WHOLE, doing="Using a channel")
    async def acknowledge(self, topic: str, name: str, number: int) -> int:
        """Acknowledge all messages up to that number, and return the highest number acknowledged.

        A lower number changes nothing, nor does a number of a topic without messages: later messages have greater
        numbers. Raises `InvalidInput`, also for a number above the newest message.
        """
        checked_topic, subscriber = check_topic("topic", topic), check_subscriber(name)
        checked_number = checked("number", number, LARGEST_NUMBER, least=0)
        is_reached = not checked_number or await self._topics.streams.read(checked_topic, checked_number - 1, 1)
        if not is_reached and not await self._topics.streams.newest(checked_topic):
            return await self._position(checked_topic, subscriber)
        if not is_reached:
            message = f"number: no message of {topic!r} has the number {number} yet"
            raise InvalidInput(message, field="number", value=number, allowed="that of a message")
        return await self._advance(subscriber_name(checked_topic, subscriber), checked_number)

    async def _advance(self, document: str, number: int) -> int:
        """Move the position of a subscriber forward to that number, never back. Return where it is then."""
        wanted = Subscriber(number=number, at=await self._now())
        while True:
            with suppress(NotFound):
                return (
                    await self._subscribers.change(document, lambda old: max(old, wanted, key=attrgetter("number")))
                ).number
            with suppress(AlreadyExists):  # else somebody has added it meanwhile: that one is moved
                await self._subscribers.add(document, wanted)
                return number

    @operation(Role.OPERATE, WHOLE, doing="Using a channel")
    async def unsubscribe(self, topic: str, name: str) -> None:
        """Delete the position of a subscriber: a new one of that name begins with all stored messages."""
        await self._subscribers.discard(subscriber_name(check_topic("topic", topic), check_subscriber(name)))

    @stream(MessageView.made)
    async def subscribe(
        self, topic: str, name: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Message, None]:
        """Yield the messages of the topic without end: those after the number `after`, else those that `read` returns.

        With a `name` the position is stored. A message is acknowledged when the next one is requested, so each arrives
        at least once, also after a crash. A subscriber that returns goes on at the message at which it stopped.
        """
        done, found = 0, await self.read(topic, after, name)
        try:
            while True:
                if found.gap:
                    log.warning("there is a gap in %s: earlier messages are no longer stored", topic)
                for message in found.messages:
                    yield message
                    done = message.number
                if name is not None and done:
                    await self.acknowledge(topic, name, done)
                    done = 0
                found = await self.read(topic, found.after, None, FOLLOW_WAIT)
        finally:
            if name is not None and done:
                await self.acknowledge(topic, name, done)


def _as_many_as_fit(found: Sequence[Numbered]) -> Sequence[Numbered]:
    sizes = accumulate(len(bytes(each.entry.body)) for each in found)
    return [
        each for place, (each, size) in enumerate(zip(found, sizes, strict=True)) if not place or size <= MOST_BYTES
    ]


def check_subscriber(name: object) -> str:
    """Return the text as the name of a subscriber. Raises `InvalidInput`."""
    check_word("name", name)
    return str(name)


def _checked_key(key: object) -> str:
    check_text("key", key)
    text = str(key)
    if not 1 <= len(text) <= LONGEST_KEY:
        message = f"key: {text!r} is too long, or empty"
        raise InvalidInput(message, field="key", value=text, allowed=f"1 to {LONGEST_KEY} characters")
    return text
