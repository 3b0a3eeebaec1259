"""Clients of a door, each with a request of its own: how much they get when they ask as fast as they can, and how late.

They read no more of an answer than they need: what they cost is not what is measured.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter

Request = Callable[[], bytes]
"""Makes the next request, as it is sent."""


def request(method: str, path: str, secret: str | None, body: bytes | None = None, *, keep: bool = True) -> bytes:
    """A request as it is sent. `keep`: its connection stays."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"Authorization: Bearer {secret}"] if secret else []
    lines += [] if keep else ["Connection: close"]
    lines += [] if body is None else ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")


class Client:
    """One that asks again and again, on one connection (`keep`) or on a new one each time."""

    def __init__(self, port: int, asks: Request, *, keep: bool = True) -> None:
        self._port = port
        self._asks = asks
        self._keep = keep
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> bytes:
        """The answer's body."""
        return (await self.ask_for(self._asks()))[1]

    async def ask_for(self, sent: bytes) -> tuple[bytes, bytes]:
        """The answer's head, in lower case, and its body."""
        reader, writer = self._open or await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(sent)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 20"), head
        body = await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        if self._keep:
            self._open = reader, writer
        else:
            writer.close()
        return head, body

    def close(self) -> None:
        """Leave."""
        if self._open is not None:
            self._open[1].close()


async def answers_a_second(clients: Sequence[Client], seconds: float) -> float:
    """How many answers they get when each asks anew as soon as it has its answer."""
    end = perf_counter() + seconds

    async def ask_on(client: Client) -> int:
        number = 0
        while perf_counter() < end:
            await client.ask()
            number += 1
        return number

    return sum(await asyncio.gather(*map(ask_on, clients))) / seconds


async def latencies(clients: Sequence[Client], rate: float, seconds: float) -> list[float]:
    """From when each request is due to its answer, when they are due at this rate whatever the door does."""
    start, number = perf_counter() + 0.1, int(rate * seconds)
    found: list[float] = []

    async def ask_in_time(client: Client, place: int) -> None:
        for each in range(place, number, len(clients)):
            due = start + each / rate
            await asyncio.sleep(due - perf_counter())
            await client.ask()
            found.append(perf_counter() - due)

    await asyncio.gather(*(ask_in_time(client, place) for place, client in enumerate(clients)))
    return found
