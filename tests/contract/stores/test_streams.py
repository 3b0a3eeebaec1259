"""Streams: however many append, each entry has a number of its own, and readers see them all in order."""

import asyncio
import os
from collections.abc import Sequence

from msgspec import Raw, json

from tests.contract.stores.actors import NOW
from tokimori.engine.streams import Streams
from tokimori.model.stream import Entry, Numbered, entry_name
from tokimori.ports.store import Store

WRITERS, EACH = 4, 15
KIND = "message"


def an_entry(body: object, by: str = "ada") -> Entry:
    """An entry that was appended now."""
    return Entry(at=NOW, by=by, key=os.urandom(4).hex(), body=Raw(json.encode(body)))


def streams(store: Store) -> Streams:
    """As another program has them: it knows nothing yet."""
    return Streams(store, KIND, os.urandom)


async def all_of(store: Store, topic: str) -> Sequence[Numbered]:
    """All entries of the topic, read in small pages."""
    found: list[Numbered] = []
    while page := await streams(store).read(topic, found[-1].number if found else 0, 7):
        found += page
    return found


async def test_numbers_are_consecutive_however_many_append(store: Store) -> None:
    """No two have the same, none is missing, each writer's entries are in its order, and a reader skips none."""
    seen: list[int] = []

    async def write(name: str) -> None:
        own = streams(store)
        for n in range(EACH):
            await own.append("news", an_entry(n, name))

    async def read() -> None:
        own = streams(store)
        while len(seen) < WRITERS * EACH:
            page = await own.read("news", seen[-1] if seen else 0, 5)
            seen.extend(each.number for each in page)
            await asyncio.sleep(0.001)

    await asyncio.gather(read(), *(write(f"w{n}") for n in range(WRITERS)))
    found = await all_of(store, "news")
    numbers = [each.number for each in found]
    assert numbers == list(range(numbers[0], numbers[0] + WRITERS * EACH)) == seen
    for n in range(WRITERS):
        assert [bytes(each.entry.body) for each in found if each.entry.by == f"w{n}"] == [
            str(m).encode() for m in range(EACH)
        ]


async def test_topics_know_nothing_of_each_other(store: Store) -> None:
    """Also where the name of one is the beginning of another's."""
    own = streams(store)
    for topic in ("a", "a-b", "a.b", "ab", "A", "a:b"):
        await own.append(topic, an_entry(topic))
    for topic in ("a", "a-b", "a.b", "ab", "A", "a:b"):
        assert [bytes(each.entry.body) for each in await all_of(store, topic)] == [f'"{topic}"'.encode()]


async def test_the_newest_is_found_among_many(store: Store) -> None:
    """By a program that knows nothing, also where the first ones were trimmed."""
    own = streams(store)
    numbers = [await own.append("news", an_entry(n)) for n in range(40)]
    assert await streams(store).newest("news") == numbers[-1]
    for number in (0, *numbers[:23]):
        name = entry_name("news", number)
        await store.delete_document(KIND, name, (await store.get_document(KIND, name)).version)
    assert await streams(store).newest("news") == numbers[-1]
    assert await streams(store).append("news", an_entry("next")) == numbers[-1] + 1


async def test_who_was_frozen_appends_behind_all_others(store: Store) -> None:
    """Though the number that it had in mind is free again: that was taken and trimmed meanwhile."""
    frozen, other = streams(store), streams(store)
    first = await frozen.append("news", an_entry("first"))
    for n in range(5):
        last = await other.append("news", an_entry(n))
    for number in (0, *range(first, last)):
        name = entry_name("news", number)
        await store.delete_document(KIND, name, (await store.get_document(KIND, name)).version)
    assert await frozen.append("news", an_entry("late")) == last + 1
    assert [each.number for each in await all_of(store, "news")] == [last, last + 1]


async def test_a_topic_that_was_forgotten_goes_on_behind_its_past(store: Store) -> None:
    """Whoever has read it once misses nothing of its new life."""
    own = streams(store)
    first = await own.append("news", an_entry("old"))
    for name in (entry_name("news", 0), entry_name("news", first)):
        await store.delete_document(KIND, name, (await store.get_document(KIND, name)).version)
    later = Entry(at=type(NOW)(NOW + 10**9), by=None, key="k", body=Raw(json.encode("new")))
    assert await own.append("news", later) > first
    assert [each.entry.key for each in await own.read("news", first, 10)] == ["k"]
