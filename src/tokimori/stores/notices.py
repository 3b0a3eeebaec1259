"""Hints that are sent to other nodes, several of them as one: what every store with a channel for them shares."""

import asyncio
from collections.abc import Awaitable, Callable

from tokimori.errors import StoreError

INTERVAL = 0.01
"""Seconds between notices, at least."""


class Sender:
    """Sends notices soon, several of them as one. One that can't be sent is forgotten."""

    def __init__(self, send: Callable[[], Awaitable[object]]) -> None:
        self._send_now = send
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def send(self) -> None:
        """Tell the others, soon."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send(), name="tokimori-store-notices")

    async def _send(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._send_now()
            except StoreError:
                return
            await asyncio.sleep(INTERVAL)

    async def close(self) -> None:
        """Send what is to be sent."""
        if self._task is not None:
            await self._task
