"""A door over a store, in a thread of its own: tests ask it over a socket, and need no loop."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.unit.api.asgi import SECRET
from tests.unit.service.world import CIPHER
from tokimori.api.app import Health, create_app
from tokimori.api.guards import Lenient
from tokimori.api.request_service import Acting
from tokimori.api.server import HttpDoor
from tokimori.clock import SystemClock
from tokimori.foreign.kala.routes import kala_routes
from tokimori.foreign.kala.shapes import PREFIX
from tokimori.locks.membership import Program
from tokimori.node.http_door import formats
from tokimori.ports.store import Store
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.service import Service, service_on

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

BEARER = {"Authorization": f"Bearer {SECRET}"}
HEALTH = Health(status="ok", node_id="n", store_reachable=True, version="1")


class Served:
    """The door: its address, and things that are there, by the names that paths have for them.

    `kala`: whether Kala's API is there, too.
    """

    def __init__(self, new_store: Callable[[], Store], *, kala: bool = False) -> None:
        self._new_store, self._kala = new_store, kala
        self._ready, self._end = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> "Served":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)

    async def _serve(self) -> None:
        self._loop, clock, store = asyncio.get_running_loop(), SystemClock(), self._new_store()
        await store.open()
        await store.migrate()
        place = ClaimPlace(store, clock, os.urandom, Program(host="h", boot_id="b", pid=1, version="0"))
        zone = "Europe/Paris"
        service = service_on(store, clock, os.urandom, time_zone=zone, author="ada", cipher=CIPHER, place=place)
        self.known = await furnish(service)
        foreign: Sequence[BaseRoute] = kala_routes(Acting(service).service) if self._kala else ()
        app = create_app(
            service,
            clock,
            interface="127.0.0.1",
            secret=SECRET,
            health=lambda: HEALTH,
            formats=formats(clock),
            pages=foreign,
            lenient=Lenient(nameless=(PREFIX,)),
        )
        door = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False)
        await door.start()
        self.url, self.port = door.url.rstrip("/"), door.port
        self._ready.set()
        await self._end.wait()
        await door.stop()
        await place.close("the test is over")
        await store.close()


async def furnish(service: Service) -> dict[str, object]:
    """What paths name: a job with runs, a queue, a calendar and a semaphore of one name."""
    await service.jobs.add("nightly", noop=True, schedule="@daily", queue="mail", owner="ada", labels={"a": "b"})
    await service.calendars.add("mail", dates=["12-25"])
    await service.semaphores.set("mail", 3)
    runs = [await service.jobs.trigger("nightly") for _ in range(3)]
    return {"job_id": "nightly", "queue": "mail", "name": "mail", "run_id": runs[0].id, "attempt": 1}
