"""A connection to a service: aiohttp's, which takes little at a time, in turns with the engine."""

import asyncio

from aiohttp.client_proto import ResponseHandler

from tokimori.turns import TurnsOfReaders

PIECE = 8 * 1024
"""Bytes that are taken together. asyncio would take 256 KiB, which may be 40,000 pieces, or 10,000 heads of answers."""


class TargetConnection(ResponseHandler, asyncio.BufferedProtocol):
    """A connection of a session; `turns` is what all connections of the session share."""

    def __init__(self, turns: TurnsOfReaders, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._turns = turns
        self._room = memoryview(bytearray(PIECE))  # of which TLS fills pieces: those of an array are copies
        self._unread = b""
        self._waits = False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come: they are read in their turn, and until then no more is taken."""
        self._unread += self._room[:nbytes]
        if not self._waits:
            self._waits = self._turns.begin(self)
        if self._waits and self.transport is not None:
            self.transport.pause_reading()

    def read_on(self) -> bool:
        """Read all that has come."""
        unread, self._unread = self._unread, b""
        if self.transport is None:
            return False
        self.data_received(unread)
        if self._waits:
            self._waits = False
            self._take_on()
        return False

    def _take_on(self) -> None:
        """Take more, unless whoever asked has not taken what was read."""
        if self.transport is not None and not self._reading_paused and not self._buffer_paused:
            self.transport.resume_reading()
