"""The door's connections: how many there may be, and how much room and time each may take.

Anybody who can reach the door can open connections, send half of a request, or not read an answer. None of it may cost
the node the file descriptors, the memory or the time that its runs need.
"""

import asyncio
import logging
import resource
from math import inf
from time import thread_time
from typing import Protocol

from msgspec import Struct, field

from tokimori.turns import TurnsOfReaders

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 500
"""Number of connections open at a time, if the limit of file descriptors (`ulimit -n`) leaves as many."""
MOST_TAKEN = 32 * 1024
"""Bytes that are taken from a connection in one step of the loop. asyncio would take 256 KiB, of each of 500."""
LONGEST_READING = 0.01
"""Seconds of one step of the loop in which is read what clients have sent."""
RESERVE = 256
"""File descriptors that the door leaves to the engine: to the store, to keepers, to the files of runs."""
_LOG_EVERY = 60.0


def most_connections(streams: int = 0) -> int:
    """Return the largest number of connections of a server, within this process's limit of file descriptors.

    `streams`: the number that streams of events may occupy; others need room beside them.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(MOST_CONNECTIONS, streams + MOST_CONNECTIONS // 2)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(soft - RESERVE, soft // 4))


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of connections: their number, their room (bytes) and their time (seconds).

    `head_within`: from when a client has nothing more to wait for, until the headers of its next request are whole;
    `body_within`: from then until the body is. `taken_within`: a client that takes less than 64 KiB of an answer in so
    long, and not the rest of it, is gone. `most_held`: of requests that are not answered yet, all connections together;
    `most_untaken`: of answers that wait for their clients. `look_every`: between two looks at all connections.
    """

    most: int = field(default_factory=most_connections)
    head_within: float = 10.0
    body_within: float = 30.0
    taken_within: float = 10.0
    most_held: int = 64 << 20
    most_untaken: int = 64 << 20
    look_every: float = 1.0


class Connection(Protocol):
    """A connection as the set of all connections sees it."""

    deadline: float
    """When (loop time) it has waited too long for its client; never while its client waits for the door."""
    held: int
    """Bytes of its request, from the first one until it is answered, and of what it has sent behind it."""

    def expire(self) -> None:
        """End the connection: its deadline is over."""

    def drop(self) -> None:
        """End the connection at once: its place is needed."""

    def untaken(self, now: float) -> int:
        """Return the bytes of answers that wait for its client. It ends itself if the client takes hardly any."""


class Connections:
    """All connections of a door. If room is needed it closes those that wait for their client, the longest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0
        self.buffer = memoryview(bytearray(MOST_TAKEN))
        self.reading = TurnsOfReaders(LONGEST_READING, thread_time)
        self._open: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._logged_at = -inf

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Count a new connection."""
        self._open.add(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self.limits.look_every, self._sweep)

    def remove(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self.let_go(connection)

    def waits(self, connection: Connection) -> None:
        """Note that the door waits for its client from now on."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def is_answered(self, connection: Connection) -> None:
        """Note that its client waits for the door: it is not closed."""
        self._waiting.pop(connection, None)

    def hold(self, connection: Connection, size: int) -> None:
        """Count bytes of its request; if all together are too many, those that hold most are closed."""
        connection.held += size
        self.held += size
        while self.held > self.limits.most_held:
            largest = max(self._waiting, key=lambda each: each.held, default=None)
            if largest is None or not largest.held:
                return
            self._drop(largest)

    def let_go(self, connection: Connection, but: int = 0) -> None:
        """Stop counting the bytes of a request, except `but` bytes of the next one."""
        self.held -= connection.held - but
        connection.held = but

    def make_room(self) -> bool:
        """Make room for one more connection, if need be by closing the longest waiting: False if none is free."""
        if len(self._open) < self.limits.most:
            return True
        self._warn_sometimes()
        if not self._waiting:
            return False
        self._drop(next(iter(self._waiting)))
        return True

    @property
    def is_full(self) -> bool:
        """Return whether another connection must go for one more."""
        return len(self._open) >= self.limits.most

    def close(self) -> None:
        """End all connections."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in list(self._open):
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.drop()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        untaken = {connection: connection.untaken(now) for connection in list(self._open)}
        for connection in untaken:
            if connection.deadline <= now:
                connection.expire()
        total = sum(untaken.values())
        while total > self.limits.most_untaken:
            largest = max(untaken, key=lambda each: untaken[each])
            total -= untaken.pop(largest)
            self._drop(largest)
        self._sweeping = loop.call_later(self.limits.look_every, self._sweep) if self._open else None

    def _warn_sometimes(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._logged_at + _LOG_EVERY:
            self._logged_at = now
            log.warning(
                "the HTTP server has %d connections open, as many as it takes: those that wait longest for "
                "their client are closed (ulimit -n allows %d files, and %d are the engine's)",
                len(self._open),
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                RESERVE,
            )
