"""A client that asks half: `python -m tests.integration.http.half_open PORT CONNECTIONS SECONDS`.

It keeps so many connections open for so long, sends the beginning of a request on each, and opens what is closed anew.
"""

import asyncio
import sys
from contextlib import suppress
from time import monotonic

BEGUN = (
    b"",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
    b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
)
PAUSE = 1.0


async def ask_half(port: int, begun: bytes, end: float) -> None:
    """One connection after another, until the end (monotonic seconds)."""
    while (left := end - monotonic()) > 0:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(left):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begun)
                try:
                    await reader.read()
                finally:
                    writer.close()
        await asyncio.sleep(PAUSE)


async def main(port: int, connections: int, seconds: float) -> None:
    """All connections at once."""
    end = monotonic() + seconds
    await asyncio.gather(*(ask_half(port, BEGUN[number % len(BEGUN)], end) for number in range(connections)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
