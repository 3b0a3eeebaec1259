"""Steadiness: nodes that live for less than a minute know what those before them have seen of the store's time."""

import random

from tokimori.clock import HOUR, SECOND, Moment
from tokimori.engine.rewind import Steadiness
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

NOON = Moment(1_800_000_000 * SECOND)


def node(store: MemoryStore, born: float) -> Steadiness:
    """Return what a node believes that has joined at this second."""
    return Steadiness(store, lambda at: at - born, random.Random(born).randbytes)


def at(second: float) -> Moment:
    """Return the store's time, whose seconds are those of the test."""
    return Moment(NOON + round(second * SECOND))


async def test_nodes_that_follow_one_another_have_seen_all_of_it() -> None:
    """Each lives for twenty seconds, and all of them together know of a minute."""
    store = MemoryStore(VirtualClock(NOON))
    for born in range(0, 80, 20):
        one = node(store, born)
        for second in range(born, born + 20, 5):
            assert await one.seconds(at(second), second) == second
    assert await node(store, 75).seconds(at(80), 80) == 80


async def test_a_leap_of_the_time_begins_it_anew() -> None:
    """A note that is ahead of the time, or long over, is one from before a leap, or from another day."""
    store = MemoryStore(VirtualClock(NOON))
    assert await node(store, 0).seconds(at(30), 30) == 30
    assert await node(store, 28).seconds(Moment(at(32) - HOUR), 32) == 4
    assert await node(store, 28).seconds(at(33), 33) == 5


async def test_a_note_that_nobody_understands_is_written_anew() -> None:
    """What another version has noted counts for nothing."""
    store = MemoryStore(VirtualClock(NOON))
    one = node(store, 0)
    await one.seconds(at(1), 1)
    (known,) = await store.list_documents("clock")
    await store.put_document(type(known)(kind="clock", name="steady", text="soon", version=9), known.version)
    assert await one.seconds(at(2), 2) == 2
    assert (await store.list_documents("clock"))[0].text == f"{at(0)} {at(2)}"
