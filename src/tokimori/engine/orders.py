"""Orders that a node receives: with its beats it reads what was appended since the last reading.

A busy node reads with each beat. An idle node reads if a beat shows a new peer, because a sender of orders joins the
cluster while it waits, and after a beat that failed or came late.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

from tokimori.engine.streams import Streams
from tokimori.model.ids import NodeId, RandomBytes
from tokimori.model.order import KIND, TOPIC, Order, decode_order
from tokimori.model.stream import Numbered
from tokimori.ports.documents import Documents
from tokimori.ports.nodes import Pulse

log = logging.getLogger(__name__)

RARELY = 120.0
"""Seconds after which an idle node reads in any case."""
MOST = 100
"""Orders read at one beat; the others are read at the next one."""
AT_ONCE = 10
"""Orders read in one step of the loop: signals may be large."""


class OrderFeed:
    """Feed of orders. Reads may raise `StoreError`; then nothing is lost."""

    def __init__(self, store: Documents, random: RandomBytes) -> None:
        self._streams = Streams(store, KIND, random)
        self._after: int | None = None
        self._peers: frozenset[NodeId] = frozenset()
        self._next_at = 0.0

    async def begin(self) -> None:
        """Begin with orders from now on. Earlier ones are for other nodes: a node has a new id at each start."""
        if self._after is None:
            self._after = await self._streams.newest(TOPIC)

    async def received(self, pulse: Pulse, at: float, *, busy: bool) -> Sequence[Order]:
        """Return the orders since the last call, if there may be any. `at` is monotonic seconds."""
        peers = frozenset(peer for peer, _ in pulse.peers)
        if busy or peers - self._peers:
            self._next_at = at
        self._peers = peers
        if self._after is None or at < self._next_at:
            return ()
        found = await self._read(self._after)
        self._next_at = at if found else at + RARELY  # there may be more
        orders = []
        for place, each in enumerate(found, 1):
            if (order := _order_in(each)) is not None:
                orders.append(order)
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)
        return orders

    async def missed(self) -> AsyncIterator[Order]:
        """Yield all orders since the last call, for a node that stops reading."""
        while self._after is not None and (found := await self._read(self._after)):
            for each in found:
                if (order := _order_in(each)) is not None:
                    yield order

    async def _read(self, after: int) -> Sequence[Numbered]:
        found = await self._streams.read(TOPIC, after, MOST)
        if found:
            self._after = found[-1].number
        return found


def _order_in(found: Numbered) -> Order | None:
    try:
        return decode_order(bytes(found.entry.body))
    except ValueError as fault:
        log.warning("order %d can't be read by this version of Tokimori: %s", found.number, fault)
        return None
