"""`python -m benchmarks.limits [--store NAME] [--rows N]`: fill each store, measure each verb, print the table."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from time import monotonic

from benchmarks.in_process_node import opened_store
from benchmarks.limits.beats import beating, joined
from benchmarks.limits.filling import Size, fill
from benchmarks.limits.spent import processor_seconds
from benchmarks.limits.verbs import Bench, Measured, all_verbs
from benchmarks.store_servers import Place
from benchmarks.workloads.blocked import STORES
from tokimori.clock import SystemClock
from tokimori.service.service import Service


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = _options(arguments)
    size = Size(options.rows, options.queues, options.jobs, options.payloads)
    found: dict[str, Sequence[Measured]] = {}
    for name in options.store:
        with STORES[name]() as place:
            found[name] = asyncio.run(_measured(name, place, size))
        print(table(found), flush=True)
    return 0


async def _measured(name: str, place: Place, size: Size) -> Sequence[Measured]:
    found: list[Measured] = []

    def tell(measured: Measured) -> None:
        found.append(measured)
        print(f"{name}: {measured.verb}: {measured.times} times: {_cell(measured)}", file=sys.stderr, flush=True)

    async with opened_store(place.url) as store:
        begun = monotonic()
        filled = await fill(store, size)
        print(f"{name}: filled in {monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        node = await joined(store)
        async with beating(store, place.url, node) as beats:
            service = Service(store, SystemClock(), os.urandom)
            spent = partial(processor_seconds, place.pid)
            await all_verbs(Bench(store, service, node, beats, filled, size, tell, spent))
    return found


def table(found: Mapping[str, Sequence[Measured]]) -> str:
    """In markdown: a row for each verb, a column for each store, each cell in milliseconds: see `Measured`."""
    verbs = [measured.verb for measured in next(iter(found.values()))]
    cells = {name: {each.verb: _cell(each) for each in measured} for name, measured in found.items()}
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---:|" * len(found)]
    lines += [f"| {verb} | " + " | ".join(cells[name].get(verb, "") for name in found) + " |" for verb in verbs]
    return "\n".join(lines)


def _cell(measured: Measured) -> str:
    times = (measured.median, measured.worst, measured.beat, measured.spent)
    return " / ".join("too slow" if seconds == inf else f"{1000 * seconds:,.0f}" for seconds in times)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="one of the stores; all by default")
    default = Size()
    for name, value in default._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"how many; {value:,} by default")
    options = parser.parse_args(arguments)
    options.store = options.store or list(STORES)
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
