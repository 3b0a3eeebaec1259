"""A stand-in for the door while something holds the node's loop: a thread that answers 503, and why.

Whoever asks for readiness then would else wait, and learn nothing. A process that is stopped as a whole answers nobody.
"""

import asyncio
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from msgspec import json

HELD: Final = 6.0
"""Seconds without a sign of the loop after which the thread answers."""
_SIGN, _LOOK = 2.0, 2.0
"""Seconds from one sign of the loop to the next, and from one look of the thread to the next."""
_TAKEN = 0.05
"""Seconds to the next look where the loop has taken the connection, or no more can be opened."""
_PATIENCE = 1.0
"""Seconds that a client has to say what it wants."""
_MOST = 65_536
_AT_ONCE = 50
"""So many clients are waited for at the same time: those that say nothing keep no other from its answer."""


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
        """Answer whoever comes within a moment. The loop may wake and take the connection: then there is none."""
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
    """Read what is asked, and say that nobody is there to answer it. Raises `OSError`."""
    asked, end = b"", monotonic() + _PATIENCE
    while b"\r\n\r\n" not in asked and len(asked) < _MOST:
        connection.settimeout(max(0.001, end - monotonic()))  # in all: who sends byte by byte keeps nobody waiting
        if not (more := connection.recv(4096)):
            break
        asked += more
    body = json.encode({"status": f"the node's loop has been held for {held:.0f} s: the log says by what"})
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    connection.sendall(f"{head}Cache-Control: no-store\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
