"""LISTEN and NOTIFY: hints that somebody else may have changed something, sent outside of the transactions of work."""

import asyncio
from collections.abc import Callable

from tokimori.stores.postgres.address import PostgresAddress
from tokimori.stores.postgres.connections import PATIENCE, PostgresConnections, connect
from tokimori.stores.postgres.faults import FAULTS

# A notice need not outlive the server: it does not wait for its disk.
_SEND = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


def channel_of(address: PostgresAddress) -> str:
    """Return the channel of an installation's notices."""
    return address.namespace.prefix.rstrip("_")


async def notify(db: PostgresConnections, address: PostgresAddress, name: str) -> None:
    """Tell the others, under that name."""
    await db.rows(_SEND, channel_of(address), name)


async def hear(address: PostgresAddress, name: str, wake: Callable[[], None]) -> None:
    """Call `wake` for each notice that was not sent under `name`, and at first; until the session is lost.

    Raises `StoreError` where there is none.
    """
    session, lost = await connect(address), asyncio.Event()

    def notified(_session: object, _pid: int, _channel: str, sender: object) -> None:
        if sender != name:
            wake()

    try:
        session.add_termination_listener(lambda _session: lost.set())
        async with asyncio.timeout(PATIENCE):
            await session.add_listener(channel_of(address), notified)
        wake()
        await lost.wait()
    except FAULTS:
        return
    finally:
        session.terminate()
