"""Orders as a node hears them."""

import os

import msgspec

from tests.unit.examples import NEW_YEAR
from tests.unit.turns import turns_of_others
from tokimori.engine.orders import AT_ONCE, MOST, Orders
from tokimori.engine.streams import Streams
from tokimori.model.ids import RunId, Token
from tokimori.model.order import KIND, TOPIC, SignalRun, encode_order
from tokimori.model.stream import Entry
from tokimori.ports.nodes import Pulse, Survey
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.clock import VirtualClock

PULSE = Pulse(
    now=NEW_YEAR, owned=frozenset(), cancels=(), peers=(), orphans=False, survey=Survey(next_due=None, lanes=())
)


async def test_others_have_their_turn_while_many_orders_are_heard() -> None:
    """Signals may be large: what a node does beside them, such as its answers, waits for some of them alone."""
    store = MemoryStore(VirtualClock())
    orders, streams = Orders(store, os.urandom), Streams(store, KIND, os.urandom)
    await orders.begin()
    given = [SignalRun(run_id=RunId("r"), token=Token(1), name="n", data=str(n)) for n in range(MOST)]
    for order in given:
        body = msgspec.Raw(encode_order(order))
        await streams.append(TOPIC, Entry(at=NEW_YEAR, by=None, key="k", body=body))
    async with turns_of_others() as turns:
        assert await orders.heard(PULSE, 0, busy=True) == given
    assert turns.count >= MOST // AT_ONCE
