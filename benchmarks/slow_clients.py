"""Clients that take their time: `python -m benchmarks.slow_clients PORT SECRET readers|senders NUMBER`.

Readers ask for a list of 1,000 jobs and take a byte of it in a second; senders send a byte of a large body in a second.
Whom the door closes comes again at once. When all have begun it says so.
"""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from benchmarks.http_clients import request

Begun = Callable[[], None]
PAUSE = 1.0
"""Seconds between two bytes."""
SAID = "All have begun"
LEAST = 4096
"""Bytes that the kernel may take for a reader."""


async def read_slowly(sock: socket.socket, secret: str, begun: Begun) -> None:
    """Until the door has enough of it."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, request("GET", "/api/v2/jobs?limit=1000", secret))
    while await loop.sock_recv(sock, 1):
        begun()
        await asyncio.sleep(PAUSE)


async def send_slowly(sock: socket.socket, secret: str, begun: Begun) -> None:
    """Until the door has enough of it."""
    loop = asyncio.get_running_loop()
    whole = request("POST", "/api/v2/jobs", secret, b" " * 500_000)
    head = whole.index(b"\r\n\r\n") + 4
    await loop.sock_sendall(sock, whole[:head])
    begun()
    for place in range(head, len(whole)):
        await loop.sock_sendall(sock, whole[place : place + 1])
        await asyncio.sleep(PAUSE)


KINDS = {"readers": read_slowly, "senders": send_slowly}


async def again(
    go: Callable[[socket.socket, str, Begun], Awaitable[None]], port: int, secret: str, begun: Begun
) -> None:
    """One after the other, for ever."""
    while True:
        with socket.socket() as sock:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LEAST)
            with suppress(OSError):
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
                await go(sock, secret, begun)


async def main(port: int, secret: str, kind: str, number: int) -> None:
    """Until told to stop."""
    first_bytes = [asyncio.Event() for _ in range(number)]
    async with asyncio.TaskGroup() as clients:
        for first_byte in first_bytes:
            clients.create_task(again(KINDS[kind], port, secret, first_byte.set))
        for first_byte in first_bytes:
            await first_byte.wait()
        print(SAID, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
