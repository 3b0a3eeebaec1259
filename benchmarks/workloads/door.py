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

from benchmarks.comparison import TOKIMORI, AtLeast, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.http_clients import Client, Request, answers_a_second, latencies, request
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
ADDRESS = re.compile(r"page is at http://127\.0\.0\.1:(\d+)/")
WARM_UP = 0.5
"""Seconds."""


def measured(process: Process, seconds: float, *, keep: bool) -> Figures:
    """What this door does."""
    port, secret = address_of(process)
    return asyncio.run(rate_and_lateness(port, lambda: _read(secret, keep=keep), seconds, keep=keep))


def _read(secret: str | None, *, keep: bool) -> bytes:
    return request("GET", "/api/v2/jobs/j", secret, keep=keep)


async def rate_and_lateness(port: int, asks: Request, seconds: float, *, keep: bool = True) -> Figures:
    """What a door does for so many clients."""
    clients = [Client(port, asks, keep=keep) for _ in range(CLIENTS)]
    await answers_a_second(clients, WARM_UP)
    rate = await answers_a_second(clients, seconds)
    late = await latencies(clients, rate / 2, seconds)
    for client in clients:
        client.close()
    return {RATE: rate, LATE: quantiles(late, n=100)[-1] * 1000}


def address_of(process: Process) -> tuple[int, str | None]:
    """The port that the program prints, and the secret of a node."""
    assert process.stdout is not None
    found = (ADDRESS.search(line) for line in iter(process.stdout.readline, ""))
    address = next(match for match in found if match is not None)
    secret = Path(os.environ["TOKIMORI_STATE_DIR"]) / "secret"
    return int(address[1]), secret.read_text().strip() if "serve" in str(process.args) else None


@contextmanager
def a_node(folder: Path, store: str, jobs: Sequence[tuple[str, Definition]] = (("j", JOB),)) -> Iterator[Process]:
    """`tokimori serve` on this store, with jobs that are not due."""
    asyncio.run(fill(store, jobs))
    os.environ["TOKIMORI_STATE_DIR"] = str(folder)
    with running([sys.executable, "-m", "tokimori", "serve", "--store", store], folder) as process:
        yield process


async def fill(url: str, jobs: Sequence[tuple[str, Definition]] = (("j", JOB),)) -> None:
    """A store with these jobs."""
    async with opened_store(url) as store:
        await add_jobs(store, jobs)


def tokimori(seconds: float, keep: bool, folder: Path) -> Figures:
    """The door of a node."""
    with a_node(folder, store_url(folder)) as process:
        return measured(process, seconds, keep=keep)


def bare(seconds: float, keep: bool, folder: Path) -> Figures:
    """The same bytes from an application that does nothing else."""
    with a_node(folder, store_url(folder)) as process:
        port, secret = address_of(process)
        body = asyncio.run(Client(port, lambda: _read(secret, keep=False), keep=False).ask())
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


WORKLOAD = Workload("W13", "the HTTP door: reads", trials)
