"""W13: reading one job over HTTP: how many a second, and how late at half of that, beside bare Starlette on uvicorn."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from benchmarks.comparison import TOKIMORI, AtLeast, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import add_jobs, opened_store, store_url
from benchmarks.rounds import in_turn
from benchmarks.serving import Process, running
from tokimori.model.job import Definition
from tokimori.model.target import Command

RATE, LATE = "answers", "p99 at half load"
BARE = "bare Starlette on uvicorn"
AT_LEAST, AT_MOST = 0.5, 10.0
JOB = Definition(target=Command(argv=("true",)), schedule="0 3 * * *")
CLIENTS = 16
ADDRESS = re.compile(r"page is at http://127\.0\.0\.1:(\d+)/(?:\?secret=(\S+))?")
WARM_UP = 0.5
"""Seconds."""


class Client:
    """One that reads the job again and again, on one connection (`keep`) or on a new one each time."""

    def __init__(self, port: int, secret: str | None, *, keep: bool) -> None:
        self._port = port
        self._keep = keep
        lines = ["GET /api/v2/jobs/j HTTP/1.1", "Host: localhost"]
        lines += [f"Authorization: Bearer {secret}"] if secret else []
        lines += [] if keep else ["Connection: close"]
        self._request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> bytes:
        """The answer's body."""
        reader, writer = self._open or await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        body = await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        if self._keep:
            self._open = reader, writer
        else:
            writer.close()
        return body

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


def measured(process: Process, seconds: float, *, keep: bool) -> Figures:
    """What this door does."""
    port, secret = address_of(process)
    return asyncio.run(_measured(port, secret, seconds, keep=keep))


async def _measured(port: int, secret: str | None, seconds: float, *, keep: bool) -> Figures:
    clients = [Client(port, secret, keep=keep) for _ in range(CLIENTS)]
    await answers_a_second(clients, WARM_UP)
    rate = await answers_a_second(clients, seconds)
    late = await latencies(clients, rate / 2, seconds)
    for client in clients:
        client.close()
    return {RATE: rate, LATE: quantiles(late, n=100)[-1] * 1000}


def address_of(process: Process) -> tuple[int, str | None]:
    """The port that the program prints, and the secret with it where it demands one."""
    assert process.stdout is not None
    found = (ADDRESS.search(line) for line in iter(process.stdout.readline, ""))
    address = next(match for match in found if match is not None)
    return int(address[1]), address[2]


@contextmanager
def a_node(folder: Path) -> Iterator[Process]:
    """`tokimori serve` with one job, which is not due."""
    asyncio.run(_fill(folder))
    os.environ["TOKIMORI_STATE_DIR"] = str(folder)
    with running([sys.executable, "-m", "tokimori", "serve", "--store", store_url(folder)], folder) as process:
        yield process


async def _fill(folder: Path) -> None:
    async with opened_store(store_url(folder)) as store:
        await add_jobs(store, [("j", JOB)])


def tokimori(seconds: float, keep: bool, folder: Path) -> Figures:
    """The door of a node."""
    with a_node(folder) as process:
        return measured(process, seconds, keep=keep)


def bare(seconds: float, keep: bool, folder: Path) -> Figures:
    """The same bytes from an application that does nothing else."""
    with a_node(folder) as process:
        port, secret = address_of(process)
        body = asyncio.run(Client(port, secret, keep=False).ask())
    file = folder / "answer.json"
    file.write_bytes(body)
    with running([sys.executable, "-m", "benchmarks.bare_starlette", str(file)], Path.cwd()) as process:
        return measured(process, seconds, keep=keep)


def trials(quick: bool) -> Sequence[Trial]:
    """One with connections that stay, one with a new connection for each request."""
    return [_trial(2.0 if quick else 8.0, keep=keep) for keep in (True, False)]


def _trial(seconds: float, *, keep: bool) -> Trial:
    how = "keep-alive" if keep else "a connection each"
    contenders = {TOKIMORI: partial(tokimori, seconds, keep), BARE: partial(bare, seconds, keep)}
    return Trial(
        title=f"reads of one job on SQLite by {CLIENTS} clients, {how}",
        quantities=[Quantity(RATE, "requests/s", more=True), Quantity(LATE, "ms")],
        targets=[AtLeast(RATE, BARE, AT_LEAST), AtMost(LATE, AT_MOST)],
        measure=in_turn(contenders),
    )


WORKLOAD = Workload("W13", "the HTTP door", trials)
