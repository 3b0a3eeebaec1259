"""Topics: the messages of all channels, and one look at what comes behind a message, however many wait for it."""

import asyncio

from tokimori.engine.streams import Streams
from tokimori.model.ids import RandomBytes
from tokimori.model.message import KIND
from tokimori.ports.documents import Documents

EVERY = 0.25
"""Seconds between two looks for the message for which somebody waits."""


class Topics:
    """State that all users of channels in this process share."""

    def __init__(self, store: Documents, random: RandomBytes) -> None:
        self.streams = Streams(store, KIND, random)
        self._looks: dict[tuple[str, int], asyncio.Task[bool]] = {}
        """By topic and number: who waits behind a number that was never given hinders nobody."""

    async def wait(self, topic: str, after: int, seconds: float) -> None:
        """Return once there is a message behind that number, or after so many seconds. May raise `StoreError`."""
        clock = asyncio.get_running_loop().time
        ends = clock() + seconds
        while (left := ends - clock()) > 0:
            look = self._looks.get((topic, after))
            if look is None:
                look = self._looks[topic, after] = asyncio.create_task(self._look(topic, after))
                look.add_done_callback(_heard_of)
            await asyncio.wait([look], timeout=left)
            if look.done() and (look.cancelled() or look.result()):
                return

    async def _look(self, topic: str, after: int) -> bool:
        try:
            await asyncio.sleep(EVERY)
            return bool(await self.streams.read(topic, after, 1))
        finally:
            del self._looks[topic, after]


def _heard_of(look: asyncio.Task[bool]) -> None:
    """Whoever still waits is told of its error; where nobody does, it is no matter."""
    if not look.cancelled():
        look.exception()
