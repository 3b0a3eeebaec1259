"""Channels: messages that programs publish to a topic, and read from it."""

import json
from typing import Final

from msgspec.json import encode

from tokimori.errors import InvalidInput
from tokimori.service.service import Service
from tokimori.web.addresses import path
from tokimori.web.nouns import SHOWN, Column, Noun, Row, Table, Turning, filters, plain, said, screens_of, turning, when
from tokimori.web.screen import Act, Field, Given, Moved, Receipt
from tokimori.web.visit import Visit

MESSAGES_SHOWN: Final = 50
_COLUMNS: Final = (
    *(Column("Number", "pa"), Column("Published", "n pb"), Column("By", "pc"), Column("Message", "wide pf")),
    Column("Key", "w3"),
)
_COMMAND: Final = "tokimori publish orders '{\"order\": 17}'"


async def show(visit: Visit) -> Noun | Moved:
    """Return the list of topics; the page of one if its name is typed."""
    topic = visit.one("q")
    if topic is not None:
        return Moved(path("channels", topic))
    found = await visit.service.channels.list(visit.one("after"), SHOWN + 1)
    rows = [
        Row(f"channel {each.topic}", (said(each.topic, to=path("channels", each.topic)),)) for each in found[:SHOWN]
    ]
    empty = "There are no messages. A topic is named by whoever publishes to it; this publishes one:"
    return Noun(
        [Table("Channels", (Column("Topic", "wide pa"),), rows, empty, _COMMAND)],
        makes=("channels.publish",),
        filter=filters(visit, "Open a topic: type its name"),
        page=turning(visit, found[SHOWN - 1].topic if len(found) > SHOWN else None),
    )


async def page(visit: Visit) -> Noun:
    """Return the newest messages of a topic, or those behind a number."""
    topic, after = visit.parts["topic"], visit.one("after")
    if after is not None and not after.isdecimal():
        raise InvalidInput("after: it is no number", field="after", value=after, allowed="the number of a message")
    read = visit.service.channels.read
    begin = int(after) if after else max(0, (await read(topic)).after - MESSAGES_SHOWN)
    found = await read(topic, begin, limit=MESSAGES_SHOWN)
    rows = [
        Row(
            f"message {each.number}",
            (
                said(each.number),
                when(visit, each.at),
                said(each.by),
                said(encode(each.data).decode(), "code"),
                said(each.key, "code"),
            ),
        )
        for each in reversed(found.messages)
    ]
    name = plain(topic)
    older = visit.link(after=max(0, begin - MESSAGES_SHOWN)) if begin and rows and not found.gap else None
    return Noun(
        [
            Table(
                "Messages, newest first",
                _COLUMNS,
                rows,
                "No message is kept here.",
                f"tokimori publish {name} JSON",
            )
        ],
        name=name,
        acts=("channels.publish", "channels.unsubscribe"),
        on=topic,
        page=Turning(older, visit.link(after=None) if after else None),
        boxes=(("In a terminal", f"tokimori subscribe {name} -f"),),
        note="No older message is kept." if found.gap else "",
    )


async def _publish(service: Service, topic: str, given: Given) -> Receipt:
    text = given.get("message", "")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as fault:
        allowed = """JSON: a text is "text" in its marks"""
        raise InvalidInput(
            f"message: it is no JSON: {fault}", field="message", value=text[:200], allowed=allowed
        ) from None
    sent = await service.channels.publish(topic, data, given.get("key"))
    return Receipt(f"Message {sent.number} published to {topic}", path("channels", topic))


async def _unsubscribe(service: Service, topic: str, given: Given) -> Receipt:
    await service.channels.unsubscribe(topic, given.get("name", ""))
    return Receipt(f"Subscriber {given.get('name', '')} of {topic} forgotten")


ACTS: Final = (
    Act(
        "channels.publish",
        "Publish to",
        "published",
        _publish,
        fields=(
            Field("message", "Message", "JSON, at most 64 KiB", "area", must=True),
            Field("key", "Key", "the same when it is published again: subscribers receive it"),
        ),
        makes="Publish",
    ),
    Act(
        "channels.unsubscribe",
        "Forget a subscriber of",
        "forgotten",
        _unsubscribe,
        fields=(Field("name", "Subscriber", "under its name another one begins with all that is kept", must=True),),
    ),
)
SCREENS: Final = screens_of("channels", show, page, "{topic}")
