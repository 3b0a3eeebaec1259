"""Channels: messages are kept in order, and a named subscriber is told of each at least once."""

import asyncio
import os
from typing import Any

import pytest

from tests.unit.service.world import World
from tokimori.errors import InvalidInput
from tokimori.model.message import LARGEST
from tokimori.model.sizes import MOST_DEPTH
from tokimori.service.service import Service, service_on


@pytest.fixture
def service() -> Service:
    """A service on an empty store."""
    return World().service


async def data(service: Service, topic: str, name: str) -> list[Any]:
    """What a subscriber has not acknowledged."""
    return [message.data for message in (await service.channels.read(topic, name=name)).messages]


async def test_a_message_is_read_as_it_was_published(service: Service) -> None:
    """With its author, its moment and its key; a text, a number and null are messages as well."""
    values: list[Any] = [{"a": [1, None, "ä\\u0000"]}, "text", 3.5, None, [], 10**30]
    sent = [await service.channels.publish("news", value) for value in values]
    found = (await service.channels.read("news", after=0)).messages
    assert [message.data for message in found] == values
    assert found == sent
    assert {message.by for message in found} == {"ada"}
    assert len({message.key for message in found}) == len(values)


async def test_topics_are_listed_by_pages(service: Service) -> None:
    """Each topic once, however many messages it has; one whose name begins another's hides none."""
    names = ["a", "a-b", "a.b", "a:b", "ab", "b"]
    for name in (*names, *names):
        await service.channels.publish(name, 1)
    found = list[str]()
    while page := await service.channels.list(found[-1] if found else None, 4):
        found += [each.topic for each in page]
    assert (sorted(found), len(found)) == (names, len(names))
    with pytest.raises(InvalidInput, match="after"):
        await service.channels.list("a/b")


@pytest.mark.parametrize(
    ("topic", "message", "key", "field"),
    [
        ("a/b", 1, None, "topic"),
        ("-a", 1, None, "topic"),
        ("", 1, None, "topic"),
        ("x" * 101, 1, None, "topic"),
        ("a", "x" * LARGEST, None, "message"),
        ("a", {1: 2}.keys(), None, "message"),
        ("a", float("nan"), None, "message"),
        ("a", "\\ud800", None, "message"),
        ("a", 1, "", "key"),
        ("a", 1, "x" * 256, "key"),
    ],
)
async def test_what_can_not_be_kept_is_named(
    service: Service, topic: str, message: object, key: str | None, field: str
) -> None:
    """The field, its value and what is allowed; nothing is published."""
    message = "\ud800" if message == "\\ud800" else message
    with pytest.raises(InvalidInput) as caught:
        await service.channels.publish(topic, message, key)
    assert (caught.value.field, bool(caught.value.allowed)) == (field, True)
    assert (await service.channels.read("a", after=0)).messages == []


async def test_a_message_is_not_nested_too_deeply(service: Service) -> None:
    """Whoever reads it has no deeper stack than we."""
    deep: Any = 1
    for _ in range(MOST_DEPTH + 1):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested too deeply"):
        await service.channels.publish("news", deep)


async def test_large_messages_come_a_few_at_a_time(service: Service) -> None:
    """A node makes an answer in one step of its loop: it ends before it is large, but not before its first message."""
    for n in range(12):
        await service.channels.publish("news", [n, "x" * 60_000])
    found = await service.channels.read("news", after=0)
    assert [message.data[0] for message in found.messages] == [*range(8)]
    assert (found.after, found.gap) == (found.messages[-1].number, False)
    rest = await service.channels.read("news", after=found.after)
    assert [message.data[0] for message in rest.messages] == [*range(8, 12)]


async def test_a_subscriber_goes_on_where_it_has_acknowledged(service: Service) -> None:
    """Each name by itself; a new one begins with all that is kept, and an earlier number changes nothing."""
    numbers = [(await service.channels.publish("news", n)).number for n in range(4)]
    assert await data(service, "news", "ann") == [0, 1, 2, 3]
    assert await service.channels.acknowledge("news", "ann", numbers[1]) == numbers[1]
    assert await service.channels.acknowledge("news", "ann", numbers[0]) == numbers[1]
    assert (await data(service, "news", "ann"), await data(service, "news", "bob")) == ([2, 3], [0, 1, 2, 3])
    await service.channels.unsubscribe("news", "ann")
    await service.channels.unsubscribe("news", "ann")
    assert await data(service, "news", "ann") == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match="no message of 'news' has the number"):
        await service.channels.acknowledge("news", "ann", numbers[-1] + 1)


async def test_what_was_trimmed_meanwhile_can_be_acknowledged(service: Service) -> None:
    """A subscriber whose topic became too old as a whole goes on, and is told of the next message."""
    store = service._shared.store
    sent = await service.channels.publish("news", "old")
    for document in await store.list_documents("message"):
        await store.delete_document("message", document.name, document.version)
    assert await service.channels.acknowledge("news", "ann", sent.number) == 0
    await service.channels.publish("news", "new")
    assert await data(service, "news", "ann") == ["new"]


async def test_who_has_no_name_is_told_what_comes(service: Service) -> None:
    """Nothing of before, unless he says behind which number."""
    first = await service.channels.publish("news", "old")
    begin = await service.channels.read("news")
    assert (begin.messages, begin.after) == ([], first.number)
    await service.channels.publish("news", "new")
    assert [message.data for message in (await service.channels.read("news", begin.after)).messages] == ["new"]


async def test_a_gap_is_told(service: Service) -> None:
    """Where messages behind a number were trimmed; who begins with all that is kept misses nothing."""
    store = service._shared.store
    numbers = [(await service.channels.publish("news", n)).number for n in range(5)]
    for document in (await store.list_documents("message"))[:4]:
        await store.delete_document("message", document.name, document.version)
    assert (await service.channels.read("news", after=numbers[0])).gap
    assert not (await service.channels.read("news", after=numbers[2])).gap
    assert not (await service.channels.read("news", name="new")).gap


async def test_a_subscription_acknowledges_what_it_was_asked_beyond(service: Service) -> None:
    """Whoever leaves at a message is told of it again, and of none before it."""
    for n in range(5):
        await service.channels.publish("news", n)
    seen = []
    messages = service.channels.subscribe("news", "ann")
    async for message in messages:
        seen.append(message.data)
        if message.data == 2:
            break
    await messages.aclose()
    assert (seen, await data(service, "news", "ann")) == ([0, 1, 2], [2, 3, 4])


async def test_whoever_waits_is_told_soon(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait for a topic, the store is looked at once for all of them."""
    monkeypatch.setattr("tokimori.service.channels.EVERY", 0)
    waiting = [asyncio.create_task(service.channels.read("news", wait=20)) for _ in range(50)]
    looks = service.channels._topics._looks
    for _ in range(100):
        if not looks:
            await asyncio.sleep(0)
    assert (len(looks), [task.done() for task in waiting]) == (1, [False] * 50)
    other = service_on(service._shared.store, service._shared.clock, os.urandom)
    await other.channels.publish("news", "now")
    found = await asyncio.gather(*waiting)
    assert {message.data for each in found for message in each.messages} == {"now"}
    assert all(len(each.messages) == 1 for each in found)


async def test_who_waits_behind_a_number_that_was_never_given_hinders_nobody(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others who wait for the topic are not told of a message before there is one."""
    monkeypatch.setattr("tokimori.service.channels.EVERY", 0)
    first = await service.channels.publish("news", "first")
    far, near = (
        asyncio.create_task(service.channels.read("news", after=after, wait=20)) for after in (10**15, first.number)
    )
    for _ in range(50):
        await asyncio.sleep(0)
    assert not near.done()
    await service.channels.publish("news", "now")
    assert [message.data for message in (await near).messages] == ["now"]
    far.cancel()
