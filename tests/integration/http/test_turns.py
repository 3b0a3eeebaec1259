"""What many clients send at the same time is read in turns with the engine."""

import asyncio
import gc
import socket
from time import thread_time

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.integration.executors.workshop import until
from tests.integration.http.test_connections import GET, POST, connected, opened, told
from tokimori.api.http_connection import MOST_AHEAD, MOST_PIECES, HttpConnection

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
        gc.collect()
        gc.freeze()  # the collector would look through all that the tests before have loaded, in one step
        for client in clients:
            client.sendall(CHUNKED + b"1\r\nx\r\n" * (MOST_PIECES - 1) + b"0\r\n\r\n")
        longest = 0.0
        while len(sizes) < CLIENTS:
            began = thread_time()
            await asyncio.sleep(0)
            longest = max(longest, thread_time() - began)
        gc.unfreeze()
        for client in clients:
            client.close()
    assert set(sizes) == {MOST_PIECES - 1}
    assert longest < LONGEST


@pytest.mark.prove
async def test_nothing_of_a_connection_waits_for_the_garbage_collector() -> None:
    """What a client has sent goes with it: the rest of 400 clients at once took the collector 0.09 s in one step."""

    def left() -> int:
        # By its type: what another test has loaded may raise where its class is asked for, as settings of Django do.
        return sum(issubclass(type(each), HttpConnection | RequestResponseCycle) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = left()
        async with opened() as door:
            for sent in (b"", GET, 2 * (GET + b"\r\n")):
                _, writer = await connected(door, sent)
                await until(lambda: len(door.connections) == 1)
                assert left() > before
                writer.close()
                await until(lambda: not len(door.connections))
            await told(door, (MOST_AHEAD + 2) * (GET + b"\r\n"))
            await until(lambda: left() <= before)
    finally:
        gc.enable()
