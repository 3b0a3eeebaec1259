"""A door on a memory store of its own, in a thread of its own: what a client over HTTP is tried on."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.api.asgi import SECRET
from tests.unit.api.conftest import HEALTHY
from tests.unit.service.world import CIPHER
from tokimori.api.app import create_app
from tokimori.api.server import HttpDoor
from tokimori.clock import SystemClock
from tokimori.locks.membership import Program
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.service import service_on
from tokimori.stores.memory.store import MemoryStore

TRANSPORTS = ("store", "http")


@contextmanager
def served(time_zone: str = "UTC") -> Iterator[str]:
    """The address of the door, with its secret."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    clock = SystemClock()
    store = MemoryStore(clock)
    place = ClaimPlace(store, clock, os.urandom, Program(host="h", boot_id="b", pid=1, version="0"))
    app = create_app(
        service_on(store, clock, os.urandom, time_zone=time_zone, cipher=CIPHER, place=place),
        clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: HEALTHY,
    )
    door = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False)
    asyncio.run_coroutine_threadsafe(door.start(), loop).result()
    try:
        yield f"{door.url}?secret={SECRET}"
    finally:
        asyncio.run_coroutine_threadsafe(_end(door, place), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(door: HttpDoor, place: ClaimPlace) -> None:
    await place.close()
    await door.stop()


@contextmanager
def store_of(transport: str) -> Iterator[str]:
    """What a client opens: a store in memory itself, or the door of one."""
    if transport == "store":
        yield "memory:"
        return
    with served() as url:
        yield url
