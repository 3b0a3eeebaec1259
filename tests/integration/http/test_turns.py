"""What many clients send at the same time is read in turns with the engine."""

import asyncio
import socket
from time import thread_time

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.integration.executors.workshop import until
from tests.integration.http.test_connections import POST, opened
from tokimori.api.http_connection import MOST_PIECES

CLIENTS = 200
LONGEST = 0.05
"""Seconds of processor that a step of the loop may take."""
CHUNKED = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_bodies_that_come_at_once_hold_up_nobody_together() -> None:
    """Whatever many clients send at once, in however small pieces: what else waits for the loop has it soon."""
    sizes: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        sizes.append(len(await Request(scope, receive).body()))
        await PlainTextResponse("read")(scope, receive, send)

    async with opened(app=app) as door:
        clients = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(CLIENTS)]
        await until(lambda: len(door.connections) == CLIENTS)
        for client in clients:
            client.sendall(CHUNKED + b"1\r\nx\r\n" * (MOST_PIECES - 1) + b"0\r\n\r\n")
        longest = 0.0
        while len(sizes) < CLIENTS:
            began = thread_time()
            await asyncio.sleep(0)
            longest = max(longest, thread_time() - began)
        for client in clients:
            client.close()
    assert set(sizes) == {MOST_PIECES - 1}
    assert longest < LONGEST
