"""Takes connections from a listening socket, no more at a time than the door has room for."""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from math import inf
from ssl import SSLContext

from tokimori.api.connections import Connections
from tokimori.api.http_connection import HttpConnection

log = logging.getLogger(__name__)

BATCH = 64
"""So many connections are taken in one step of the loop."""
BATCH_WHEN_FULL, PAUSE = 16, 0.025
"""So many, and seconds between such steps, while the door is full: who opens them all the time takes none from runs."""
NO_FILES_PAUSE = 1.0
"""Seconds after which it is tried again where this process or machine has no file descriptor or memory left."""
SHUTDOWN_WITHIN = 2.0
"""Seconds for a client to say goodbye, as TLS wants it; then its connection is gone."""
_TOLD_EVERY = 60.0


class Acceptor:
    """Takes connections from one socket. asyncio's own would log each that it can't take, thousands a second."""

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        made: Callable[[], HttpConnection],
        tls: SSLContext | None = None,
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._made = made
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._told = -inf
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Take no more."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._listening)

    def _accept(self) -> None:
        for _ in range(BATCH_WHEN_FULL if self._connections.is_full else BATCH):
            if not self._connections.make_room():
                break
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as fault:
                self._tell(fault)
                self._pause(NO_FILES_PAUSE)
                return
            self._take(accepted)
        if self._connections.is_full:
            self._pause(PAUSE)

    def _take(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        connection = self._made()
        self._connections.add(connection)
        task = self._loop.create_task(self._connect(accepted, connection))
        if self._tls is not None:
            connection.opening = lambda: _end(accepted)
            self._connections.waits(connection)  # it may say hello late, and be the first to go where room is needed
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, connection: HttpConnection) -> None:
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._tls,
                    ssl_handshake_timeout=self._connections.limits.head_within,
                    ssl_shutdown_timeout=SHUTDOWN_WITHIN,
                )
        except OSError:  # it is gone already
            self._connections.remove(connection)
            accepted.close()

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listening)
        self._paused = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listening, self._accept)

    def _tell(self, fault: OSError) -> None:
        now = self._loop.time()
        if now >= self._told + _TOLD_EVERY:
            self._told = now
            log.warning("the HTTP server can't take a connection, and tries again every second: %s", fault.strerror)


def _end(accepted: socket.socket) -> None:
    """End a connection on which TLS has not begun: it reads an end, and fails. Who has the descriptor closes it."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
