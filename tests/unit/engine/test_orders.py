"""Orders as a node hears them."""

import os

import msgspec

from tests.unit.examples import NEW_YEAR
from tests.unit.turns import turns_of_others
from tokimori.engine.orders import AT_ONCE, MOST, OrderFeed
from tokimori.engine.streams import Streams
from tokimori.model.ids import RunId, Token
from tokimori.model.order import KIND, TOPIC, SignalRun, encode_order
from tokimori.model.stream import Entry
from tokimori.ports.nodes import Pulse, Survey
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

PULSE = Pulse(
    now=NEW_YEAR, owned=frozenset(), cancels=(), peers=(), orphans=False, survey=Survey(next_due=None, lanes=())
)


async def give(streams: Streams, number: int) -> list[SignalRun]:
    """So many orders."""
    given = [SignalRun(run_id=RunId("r"), token=Token(1), name="n", data=str(n)) for n in range(number)]
    for order in given:
        body = msgspec.Raw(encode_order(order))
        await streams.append(TOPIC, Entry(at=NEW_YEAR, by=None, key="k", body=body))
    return given


async def test_what_is_too_much_for_one_beat_is_heard_with_the_next() -> None:
    """Also by a node that idles, and would look for no more of them for two minutes."""
    store = MemoryStore(VirtualClock())
    orders = OrderFeed(store, os.urandom)
    await orders.begin()
    given = await give(Streams(store, KIND, os.urandom), MOST + 1)
    assert await orders.received(PULSE, 0, busy=False) == given[:MOST]
    assert await orders.received(PULSE, 2, busy=False) == given[MOST:]


async def test_others_have_their_turn_while_many_orders_are_heard() -> None:
    """Signals may be large: what a node does beside them, such as its answers, waits for some of them alone."""
    store = MemoryStore(VirtualClock())
    orders, streams = OrderFeed(store, os.urandom), Streams(store, KIND, os.urandom)
    await orders.begin()
    given = await give(streams, MOST)
    async with turns_of_others() as turns:
        assert await orders.received(PULSE, 0, busy=True) == given
    assert turns.count >= MOST // AT_ONCE
