"""PUBLISH and SUBSCRIBE: hints that somebody else may have changed something."""

import asyncio
import math
from collections.abc import Callable

from redis.asyncio.connection import AbstractConnection

from tokimori.errors import StoreError
from tokimori.stores.redis.address import Address
from tokimori.stores.redis.connections import Connections, connect
from tokimori.stores.redis.faults import FAULTS

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds before a lost connection is opened again."""


def channel_of(address: Address) -> str:
    """Where notices of this installation are sent."""
    return f"{address.prefix}notices"


async def notify(db: Connections, name: str) -> None:
    """Tell the others, under that name."""
    await db.do("PUBLISH", channel_of(db.address), name)


class Listener:
    """A connection of its own that hears the notices of others; lost, it is opened again.

    `wake` is called for a notice that was not sent under `name`, and after a time without ears.
    """

    def __init__(self, address: Address, name: str, wake: Callable[[], None]) -> None:
        self._address = address
        self._name = name
        self._wake = wake
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tokimori-store-listener")

    async def close(self) -> None:
        """Hear no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                connection = await connect(self._address)
            except StoreError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            try:
                await self._listen(connection)
            except FAULTS:
                await asyncio.sleep(pause)
            finally:
                await connection.disconnect(nowait=True)

    async def _listen(self, connection: AbstractConnection) -> None:
        await connection.send_command("SUBSCRIBE", channel_of(self._address))
        while True:
            kind, _, sender = await connection.read_response(timeout=math.inf)
            if kind == "subscribe" or sender != self._name:
                self._wake()
