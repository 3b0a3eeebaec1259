"""Services that answer in order to hold up the node."""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import thread_time

import pytest

from tests.integration.executors.test_http import office, silent

RUNS = 20
LONGEST = 0.05
"""Seconds of processor that a step of the loop may take."""
SIZE = 100_000
"""Bytes: about as many as wait in a socket."""
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def service(answer: bytes) -> Iterator[str]:
    """The address of a service that answers this, from threads: what it costs is not the node's."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=RUNS)

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                threading.Thread(target=send, args=(accepted,), daemon=True).start()

    def send(accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            accepted.recv(1 << 16)
            accepted.sendall(answer)
            accepted.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"1\r\nx\r\n" * (SIZE // 6) + b"0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * (SIZE // 25) + CHUNKED + b"0\r\n\r\n",
    ],
    ids=["pieces", "heads"],
)
async def test_an_answer_holds_up_nobody(answer: bytes) -> None:
    """However small the pieces of answers are, and however many come at once: who waits for the loop has it soon."""
    gc.collect()
    gc.freeze()  # as a node does: else the collector looks through all that earlier tests have left
    with service(answer) as url:
        async with office(silent) as found:
            for number in range(RUNS):
                found.start(f"r{number}", url=url)
            ended = asyncio.gather(*(found.end(f"r{number}", 60) for number in range(RUNS)))
            longest = 0.0
            while not ended.done():
                began = thread_time()
                await asyncio.sleep(0)
                longest = max(longest, thread_time() - began)

    assert longest < LONGEST
