"""W16: how late a door answers others while clients read or send a byte a second, and while nobody does."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import quantiles

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Round, Trial, Workload
from benchmarks.http_clients import Client, answers_a_second, latencies, request
from benchmarks.in_process_node import store_url
from benchmarks.rounds import alone
from benchmarks.serving import running, wait_for_line
from benchmarks.slow_clients import SAID
from benchmarks.workloads.door import CLIENTS, JOB, WARM_UP, a_node, address_of

LATE, NOBODY = "p99 of the others", "nobody is slow"
AT_MOST = 1.5
"""Times as late."""
RATE = 2_000
"""Requests a second of all the others together."""
JOBS = [("j", JOB), *((f"job-{number:04}", JOB) for number in range(1_000))]
TURNS = 2
SLOW = (("readers", 1), ("readers", 50), ("senders", 50))


def both(kind: str, number: int, seconds: float, folder: Path) -> Figures:
    """With slow clients and without, in turn, at the same door."""
    late: dict[str, list[float]] = {TOKIMORI: [], NOBODY: []}
    with a_node(folder, store_url(folder), JOBS) as process:
        port, secret = address_of(process)
        asks = partial(request, "GET", "/api/v2/jobs/j", secret)
        slow = [sys.executable, "-m", "benchmarks.slow_clients", str(port), secret or "", kind, str(number)]
        for _ in range(TURNS):
            late[NOBODY] += asyncio.run(_late(port, asks, seconds))
            with running(slow, Path.cwd()) as clients:
                wait_for_line(clients, SAID)
                late[TOKIMORI] += asyncio.run(_late(port, asks, seconds))
    return {name: quantiles(found, n=100)[-1] * 1000 for name, found in late.items()}


async def _late(port: int, asks: partial[bytes], seconds: float) -> list[float]:
    clients = [Client(port, asks) for _ in range(CLIENTS)]
    await answers_a_second(clients, WARM_UP)
    found = await latencies(clients, RATE, seconds)
    for client in clients:
        client.close()
    return found


def _round(kind: str, number: int, seconds: float, _: int) -> Round:
    return {name: {LATE: figure} for name, figure in alone(partial(both, kind, number, seconds)).items()}


def trials(quick: bool) -> Sequence[Trial]:
    """Slow readers of large answers, who are closed after ten seconds, and slow senders of large bodies."""
    return [_trial(kind, number, 3.0 if quick else 12.0) for kind, number in SLOW]


def _trial(kind: str, number: int, seconds: float) -> Trial:
    slow = f"{number} {kind}" if number > 1 else "a reader"
    return Trial(
        title=f"{RATE:,} reads of one job a second on SQLite by {CLIENTS} clients, beside {slow} of a byte a second",
        quantities=[Quantity(LATE, "ms")],
        targets=[AtLeast(LATE, NOBODY, 1 / AT_MOST)],
        measure=partial(_round, kind, number, seconds),
    )


WORKLOAD = Workload("W16", "the HTTP door: others beside slow clients", trials)
