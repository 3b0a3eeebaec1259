"""PUBLISH and SUBSCRIBE: hints that somebody else may have changed something."""

import math
from collections.abc import Callable

from tokimori.stores.redis.address import RedisAddress
from tokimori.stores.redis.connections import RedisConnections, connect
from tokimori.stores.redis.faults import FAULTS


def channel_of(address: RedisAddress) -> str:
    """Return the channel of an installation's notices."""
    return f"{address.prefix}notices"


async def notify(db: RedisConnections, name: str) -> None:
    """Tell the others, under that name."""
    await db.do("PUBLISH", channel_of(db.address), name)


async def hear(address: RedisAddress, name: str, wake: Callable[[], None]) -> None:
    """Call `wake` for each notice that was not sent under `name`, and at first; until the connection is lost.

    Raises `StoreError` where there is none.
    """
    connection = await connect(address)
    try:
        await connection.send_command("SUBSCRIBE", channel_of(address))
        while True:
            kind, _, sender = await connection.read_response(timeout=math.inf)
            if kind == "subscribe" or sender != name:
                wake()
    except FAULTS:
        return
    finally:
        await connection.disconnect(nowait=True)
