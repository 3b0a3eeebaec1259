"""LISTEN and NOTIFY: hints that somebody else may have changed something, sent outside of the transactions of work."""

import asyncio
from collections.abc import Callable
from typing import Any

from tokimori.errors import StoreError
from tokimori.stores.postgres.address import Address
from tokimori.stores.postgres.connections import PATIENCE, Connections, connect
from tokimori.stores.postgres.faults import FAULTS

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds before a lost session is opened again."""
# A notice need not outlive the server: it does not wait for its disk.
_SEND = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


def channel_of(address: Address) -> str:
    """Where the nodes of an installation hear each other."""
    return address.namespace.prefix.rstrip("_")


async def notify(db: Connections, address: Address, name: str) -> None:
    """Tell the others, under that name."""
    await db.rows(_SEND, channel_of(address), name)


class Listener:
    """A session of its own that hears the notices of others; lost, it is opened again.

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
                session = await connect(self._address)
            except StoreError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            try:
                await self._listen(session)
            except FAULTS:
                await asyncio.sleep(pause)
            finally:
                session.terminate()

    async def _listen(self, session: Any) -> None:
        lost = asyncio.Event()
        session.add_termination_listener(lambda _session: lost.set())
        async with asyncio.timeout(PATIENCE):
            await session.add_listener(channel_of(self._address), self._hear)
        self._wake()
        await lost.wait()

    def _hear(self, _session: object, _pid: int, _channel: str, sender: object) -> None:
        if sender != self._name:
            self._wake()
