"""W15: jobs and runs that are asked for over HTTP, beside bare Starlette that carries out the same statements."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from msgspec import json

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.http_clients import Request, request
from benchmarks.serving import Process, running
from benchmarks.store_servers import Place, StartServer, each_on_its_own, mariadb_server, postgres_server, redis_server
from benchmarks.workloads.blocked import sqlite_file
from benchmarks.workloads.door import CLIENTS, LATE, RATE, a_node, address_of, fill, rate_and_lateness

BARE = "bare Starlette, the same statements"
AT_LEAST = 0.5
STORES: Mapping[str, StartServer] = {
    "SQLite": sqlite_file,
    "PostgreSQL": postgres_server,
    "MariaDB": mariadb_server,
    "Redis": redis_server,
}
KINDS = ("jobs", "runs")


def creates(kind: str, secret: str | None) -> Request:
    """Requests for jobs that run once a day, or for runs of a job at a moment that is far away: nothing is due."""
    numbers = count()

    def next_one() -> bytes:
        said: Mapping[str, object] = {"job_id": "j", "at": "2099-01-01T00:00:00Z"}
        if kind == "jobs":
            said = {"id": f"job-{next(numbers):08}", "schedule": "0 3 * * *", "command": ["true"]}
        return request("POST", f"/api/v2/{kind}", secret, json.encode(said))

    return next_one


def measured(process: Process, kind: str, seconds: float) -> Figures:
    """What this door does."""
    port, secret = address_of(process)
    return asyncio.run(rate_and_lateness(port, creates(kind, secret), seconds))


def tokimori(kind: str, seconds: float, place: Place, folder: Path) -> Figures:
    """The door of a node."""
    with a_node(folder, place.url) as process:
        return measured(process, kind, seconds)


def bare(kind: str, seconds: float, place: Place, folder: Path) -> Figures:
    """An application that checks nothing."""
    asyncio.run(fill(place.url))
    with running([sys.executable, "-m", "benchmarks.bare_creates", place.url], Path.cwd()) as process:
        return measured(process, kind, seconds)


def trials(quick: bool) -> Sequence[Trial]:
    """One for each store and each kind."""
    seconds = 2.0 if quick else 5.0
    return [_trial(store, kind, seconds) for store in STORES for kind in KINDS]


def _trial(store: str, kind: str, seconds: float) -> Trial:
    return Trial(
        title=f"{kind} are asked for on {store} by {CLIENTS} clients, keep-alive",
        quantities=[Quantity(RATE, "requests/s", more=True), Quantity(LATE, "ms")],
        targets=[AtLeast(RATE, BARE, AT_LEAST)],
        measure=each_on_its_own(
            STORES[store], {TOKIMORI: partial(tokimori, kind, seconds), BARE: partial(bare, kind, seconds)}
        ),
    )


WORKLOAD = Workload("W15", "the HTTP door: creates", trials)
