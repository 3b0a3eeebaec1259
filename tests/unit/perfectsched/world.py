"""Collections of several programs on one store and one loop. Time goes on only in `pass_time`."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tokimori.client.asynchronous import AsyncClient, client_on
from tokimori.client.client import Client
from tokimori.client.opening import Stores
from tokimori.clock import SECOND, Clock, parse_moment
from tokimori.locks.membership import Program
from tokimori.perfectsched import Config, ScheduleCollection
from tokimori.ports.store import Store
from tokimori.service.claims.place import ClaimPlace
from tokimori.testing.manual import VirtualClock

T = TypeVar("T")

START = parse_moment("2026-01-01T00:00:00Z") // SECOND
"""When it begins, in PerfectSched's seconds."""


class World:
    """What `open_store` opens is the store, once for each program."""

    def __init__(self, open_store: Callable[[Clock], Store]) -> None:
        self.clock = VirtualClock(parse_moment("2026-01-01T00:00:00Z"))
        self._open_store = open_store
        self._loop = asyncio.new_event_loop()
        self._clients: list[AsyncClient] = []

    def collection(self, **config: object) -> ScheduleCollection:
        """That of another program."""
        program = Program(host="h", boot_id="b", pid=len(self._clients) + 1, version="0")
        behind = client_on(Stores(self._open_store(self.clock)), self.clock, os.urandom, program=program)
        self.run(behind.__aenter__())
        self._clients.append(behind)
        client = Client.__new__(Client)
        client._act_through(lambda act, instead="": self.run(act(behind)), NotImplemented)
        said = {"type": "rdb_compat", "url": "", "table": "schedules", **config}
        return ScheduleCollection(client, Config(**said))  # type: ignore[arg-type]

    @property
    def behind(self) -> AsyncClient:
        """The client of the first program."""
        return self._clients[0]

    def kill(self) -> None:
        """From now on the first program does not beat any more."""
        dead = place_of(self._clients.pop(0))._membership
        if dead._beating is not None:
            dead._beating.cancel()

    def run(self, work: Awaitable[T]) -> T:
        """Wait for it."""
        return self._loop.run_until_complete(work)

    def pass_time(self, seconds: float) -> None:
        """Let time pass; then all programs beat."""
        self.clock.advance(seconds)
        self.beat()

    def beat(self) -> None:
        """All programs beat, and take away what nobody spoke of."""
        for client in self._clients:
            if place_of(client)._membership._joined:
                self.run(place_of(client)._membership.cycle())

    def at(self, seconds: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        self.pass_time(START + seconds - self.clock.now() / SECOND)

    def close(self) -> None:
        """Close all."""
        for client in self._clients:
            self.run(client.close())
        self._loop.close()


@contextmanager
def a_world(open_store: Callable[[Clock], Store]) -> Iterator[World]:
    """One that is closed at the end."""
    world = World(open_store)
    try:
        yield world
    finally:
        world.close()


def place_of(client: AsyncClient) -> ClaimPlace:
    """Where the program claims."""
    place = client._shared.place
    assert place is not None
    return place
