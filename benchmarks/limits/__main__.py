"""`python -m benchmarks.limits [--store NAME] [--rows N]`: fill each store, measure each verb, print the table."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic

import msgspec

from benchmarks.in_process_node import opened_store
from benchmarks.limits.beats import beating, joined
from benchmarks.limits.filling import Size, fill
from benchmarks.limits.pages import lists_over_http, screens
from benchmarks.limits.sample import check_sample
from benchmarks.limits.spent import processor_seconds
from benchmarks.limits.verbs import Bench, Measured, all_verbs
from benchmarks.store_servers import Place, mariadb_server, postgres_server, redis_server
from benchmarks.workloads.blocked import sqlite_file
from tokimori.clock import SystemClock
from tokimori.service.service import service_on

STORES: Mapping[str, Callable[[], AbstractContextManager[Place]]] = {
    "SQLite": sqlite_file,
    "PostgreSQL": partial(postgres_server, {"shared_buffers": "1GB"}),
    "MariaDB": partial(mariadb_server, {"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "512M"}),
    "Redis": redis_server,
}
"""With the memory that whoever keeps millions of rows gives to a server."""
Parts = Sequence[Callable[[Bench], Awaitable[None]]]
HTTP_ONLY: Parts = (lists_over_http, screens)
EVERYTHING: Parts = (check_sample, lists_over_http, screens, all_verbs)
Found = dict[str, dict[str, str]]
"""The cell of each verb, of each store."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = _options(arguments)
    size = Size(options.rows, options.queues, options.jobs, options.payloads)
    found: Found = msgspec.json.decode(options.found.read_bytes(), type=Found) if options.found.exists() else {}
    for name in options.store:
        with STORES[name]() as place:
            tell = partial(_tell, found, options.found, name)
            asyncio.run(_measure(name, place, size, tell, HTTP_ONLY if options.http else EVERYTHING))
    print(table(found), flush=True)
    return 0


def _tell(found: Found, kept: Path, store: str, measured: Measured) -> None:
    """It takes the place of what an earlier run has found, at once: so a run may be broken off, and others follow."""
    cell = found.setdefault(store, {})[measured.verb] = _cell(measured)
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    print(f"{store}: {measured.verb}: {measured.times} times: {cell}", file=sys.stderr, flush=True)


async def _measure(name: str, place: Place, size: Size, tell: Callable[[Measured], None], parts: Parts) -> None:
    async with opened_store(place.url) as store:
        begun = monotonic()
        filled = await fill(store, place.url, size)
        print(f"{name}: filled in {monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        node = await joined(store)
        async with beating(store, place.url, node) as beats:
            service = service_on(store, SystemClock(), os.urandom)
            spent = partial(processor_seconds, place.pid)
            bench = Bench(store, service, node, beats, filled, size, tell, spent)
            for part in parts:
                await part(bench)
    print(f"{name}: measured in {monotonic() - begun:.0f} s, filling included", file=sys.stderr, flush=True)


def table(found: Found) -> str:
    """In markdown: a row for each verb, a column for each store, each cell in milliseconds: see `Measured`."""
    verbs = dict.fromkeys(verb for cells in found.values() for verb in cells)
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---:|" * len(found)]
    lines += [f"| {verb} | " + " | ".join(each.get(verb, "") for each in found.values()) + " |" for verb in verbs]
    return "\n".join(lines)


def _cell(measured: Measured) -> str:
    times = (measured.median, measured.worst, measured.beat, measured.spent)
    return " / ".join("too slow" if seconds == inf else f"{1000 * seconds:,.0f}" for seconds in times)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="one of the stores; all by default")
    words = "where what is measured is kept, and read before: stores may be measured one by one; %(default)s by default"
    parser.add_argument("--found", type=Path, default=Path(".tokimori/limits.json"), help=words)
    parser.add_argument("--http", action="store_true", help="only lists and screens over HTTP, which change nothing")
    default = Size()
    for name, value in default._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"how many; {value:,} by default")
    options = parser.parse_args(arguments)
    options.store = options.store or list(STORES)
    options.found.parent.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
