"""Acceptor of connections from a listening socket, no more at a time than the server has room for."""

import asyncio
import logging
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from ssl import SSLContext
from time import monotonic
from typing import Final

from msgspec import json

from tokimori.api.connections import Connections
from tokimori.api.http_connection import HttpConnection

HELD: Final = 6.0
"""Seconds without a sign of the loop after which the thread answers."""
_SIGN, _LOOK = 2.0, 2.0
"""Seconds from one sign of the loop to the next, and from one look of the thread to the next."""
_TAKEN = 0.05
"""Seconds to the next look if the loop has taken the connection, or no more can be opened."""
_PATIENCE = 1.0
"""Seconds that a client has to say what it wants."""
_MOST = 65_536
_AT_ONCE = 50
"""Number of clients waited for at the same time: those that say nothing keep no other from its answer."""


class StandIn:
    """Watches the loop that calls `start`, and takes connections of these sockets while it gives no sign."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets
        self._sign = monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stand-in", daemon=True)
        self._signs: asyncio.Task[None] | None = None
        self._room = threading.Semaphore(_AT_ONCE)

    def start(self) -> None:
        """Begin to watch."""
        self._sign = monotonic()
        self._signs = asyncio.create_task(self._give_signs())
        self._thread.start()

    async def stop(self) -> None:
        """Watch no more: the sockets are about to be closed."""
        self._end.set()
        if self._signs is not None:
            self._signs.cancel()
        await asyncio.to_thread(self._thread.join)

    async def _give_signs(self) -> None:
        while True:
            self._sign = monotonic()
            await asyncio.sleep(_SIGN)

    @property
    def _held(self) -> float:
        return monotonic() - self._sign

    def _watch(self) -> None:
        while not self._end.wait(_LOOK):
            while self._held > HELD and not self._end.is_set():
                self._answer_some()

    def _answer_some(self) -> None:
        """Answer the connections of a moment. The loop may wake and take one first."""
        for each in select.select(self._sockets, (), (), _LOOK)[0]:
            with self._room:  # threads free it: it is waited for, no more
                pass
            try:
                connection, _ = each.accept()
            except OSError:
                self._end.wait(_TAKEN)
                continue
            threading.Thread(target=self._answer, args=(connection,), name="stand-in", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with self._room, connection, suppress(OSError):
            answer(connection, self._held)


def answer(connection: socket.socket, held: float) -> None:
    """Read the request, and answer that the node is not ready. Raises `OSError`."""
    asked, end = b"", monotonic() + _PATIENCE
    while b"\r\n\r\n" not in asked and len(asked) < _MOST:
        connection.settimeout(max(0.001, end - monotonic()))  # in all: a client that sends byte by byte delays no other
        if not (more := connection.recv(4096)):
            break
        asked += more
    body = json.encode({"status": f"the node's loop has been held for {held:.0f} s: the log says by what"})
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    connection.sendall(f"{head}Cache-Control: no-store\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


log = logging.getLogger(__name__)

BATCH = 64
"""Number of connections taken in one step of the loop."""
BATCH_WHEN_FULL, PAUSE = 16, 0.025
"""Connections closed in a step, and seconds between steps, while the door is full: runs keep their processor time."""
NO_FILES_PAUSE = 1.0
"""Seconds after which it is tried again if this process or machine has no file descriptor or memory left."""
SHUTDOWN_WITHIN = 2.0
"""Seconds for a client to say goodbye, as TLS wants it; then its connection is gone."""
_LOG_EVERY = 60.0


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
        self._logged_at = -inf
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
                self._warn_sometimes(fault)
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
            self._connections.waits(connection)  # it may say hello late, and be the first to go if room is needed
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

    def _warn_sometimes(self, fault: OSError) -> None:
        now = self._loop.time()
        if now >= self._logged_at + _LOG_EVERY:
            self._logged_at = now
            log.warning("the HTTP server can't take a connection, and tries again every second: %s", fault.strerror)


def _end(accepted: socket.socket) -> None:
    """End a connection before its TLS handshake: the client reads an end. The owner of the descriptor closes it."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
