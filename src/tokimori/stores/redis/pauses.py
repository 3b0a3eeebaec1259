"""Paused queues: what is asked of the server about them."""

import msgspec

from tokimori.model.pause import Pause
from tokimori.stores.redis.connections import RedisConnections


async def add_pause(db: RedisConnections, pause: Pause) -> Pause:
    kept = await db.run("add_pause", queue=pause.queue, pause=msgspec.json.encode(pause).decode())
    return msgspec.json.decode(kept, type=Pause)


async def delete_pause(db: RedisConnections, queue: str) -> None:
    await db.run("delete_pause", queue=queue)


async def list_pauses(db: RedisConnections) -> list[Pause]:
    found = [msgspec.json.decode(text, type=Pause) for text in await db.do("HVALS", f"{db.address.prefix}pauses")]
    return sorted(found, key=lambda pause: pause.queue)
