"""Orders as a node hears them: it reads, at each beat, what was appended since the last one. Nothing else is needed."""

import logging
from collections.abc import Sequence

from tokimori.engine.streams import Streams
from tokimori.model.ids import RandomBytes
from tokimori.model.order import KIND, TOPIC, Order, decode_order
from tokimori.model.stream import Numbered
from tokimori.ports.documents import Documents

log = logging.getLogger(__name__)

MOST = 100
"""Orders of one beat; the others are heard with the next one."""


class Orders:
    """What people order from now on. Both methods may raise `StoreError`; then nothing is lost."""

    def __init__(self, store: Documents, random: RandomBytes) -> None:
        self._streams = Streams(store, KIND, random)
        self._after: int | None = None

    async def begin(self) -> None:
        """From now on. What was ordered before concerns others: a node has a new id each time."""
        if self._after is None:
            self._after = await self._streams.newest(TOPIC)

    async def heard(self) -> Sequence[Order]:
        """What was ordered since this was asked last."""
        if self._after is None:
            return ()
        found = await self._streams.read(TOPIC, self._after, MOST)
        if found:
            self._after = found[-1].number
        return [order for order in map(_order_in, found) if order is not None]


def _order_in(found: Numbered) -> Order | None:
    try:
        return decode_order(bytes(found.entry.body))
    except ValueError as fault:
        log.warning("order %d can't be read by this version of Tokimori: %s", found.number, fault)
        return None
