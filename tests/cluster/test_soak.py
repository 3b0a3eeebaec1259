"""Ten minutes of steady work on each store at once: what the stores and the nodes keep does not grow."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.accounts import prepare
from tests.cluster.fleet import Fleet
from tests.servers import mariadb, postgres, redis

SECONDS = 600
LOOK_EVERY = 15
JOBS = 20
GROWTH = 1.1
"""The second half may be so many times the first: pages are reused as they become free, not at once."""
SOME_PAGES = 4 * 16_384
"""So many bytes more are no growth either: MariaDB keeps some 500 ended runs here, those that are about to be pruned
included, and a hundred of these are more than a tenth. Without pruning there would be 12,000.
"""
WRITERS = 10
TERMS: Mapping[str, object] = {"retention": "PT20S", "keep_runs": 5}

_RECORDS = "SELECT sum(data_size) FROM information_schema.innodb_buffer_page WHERE table_name LIKE '`fleet`.%'"
"""Bytes of rows and indexes, with what is not yet purged. The file of a table grows by a page to half a megabyte, and
then at once to eight: from one look to the next, where a table of this size happens to need its 33rd page.
"""


@dataclass(frozen=True, slots=True)
class Soak:
    """A node on a store, and how many bytes the store keeps."""

    fleet: Fleet
    size: Callable[[], int]

    def look(self) -> tuple[int, int]:
        """Bytes of the store, and of the node's memory, its keeper's included."""
        (node,) = self.fleet.nodes
        return self.size(), sum(map(_memory, _family(node)))


def _family(node: subprocess.Popen[bytes]) -> list[int]:
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    return [node.pid, *map(int, children)]


def _memory(pid: int) -> int:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return resident * os.sysconf("SC_PAGE_SIZE")


def _files(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern))


@pytest.fixture
def soaks(tmp_path: Path) -> Iterator[Mapping[str, Soak]]:
    """A store of each kind with jobs, and a node on it."""
    with ExitStack() as stack:
        found = {}
        for name in ("sqlite", "postgres", "mariadb", "redis"):
            folder = tmp_path / name
            folder.mkdir()
            found[name] = _soak(name, folder, stack)
            asyncio.run(prepare(found[name].fleet, JOBS, WRITERS, **TERMS))
            found[name].fleet.start_node(module="tests.cluster.soak_node")
            stack.callback(found[name].fleet.stop, 10)
        for soak in found.values():
            soak.fleet.wait_until_up()
        yield found


def _soak(store: str, folder: Path, stack: ExitStack) -> Soak:
    match store:
        case "sqlite":
            return Soak(Fleet(folder), lambda: _files(folder, "tokimori.db*"))
        case "postgres":
            pg = postgres.Server(durable=True, settings={"autovacuum_naptime": "5s"})
            stack.callback(pg.remove)
            fleet = Fleet(folder, pg.make("fleet"))
            return Soak(fleet, lambda: int(pg.sql("SELECT sum(pg_total_relation_size(oid)) FROM pg_class", "fleet")))
        case "mariadb":
            my = mariadb.Server(durable=True)
            stack.callback(my.remove)
            return Soak(Fleet(folder, my.make("fleet")), lambda: int(my.sql(_RECORDS)))
        case _:
            keys = redis.Server()
            stack.callback(keys.remove)
            return Soak(Fleet(folder, keys.url()), lambda: _used(keys.command("INFO", "memory")))


def _used(memory: str) -> int:
    return int(memory.partition("used_memory:")[2].split()[0])


@pytest.mark.prove
@pytest.mark.timeout(SECONDS + 120)
def test_ten_minutes_of_work_leave_sizes_flat(soaks: Mapping[str, Soak]) -> None:
    """Under a steady load and a retention of seconds neither tables nor nodes grow after the first five minutes."""
    looks: dict[str, list[tuple[int, int]]] = {name: [] for name in soaks}
    began = time.monotonic()
    while time.monotonic() < began + SECONDS:
        time.sleep(LOOK_EVERY)
        for name, soak in soaks.items():
            looks[name].append(soak.look())
    for name, seen in looks.items():
        kept, memory = ([pair[column] / 1_000_000 for pair in seen] for column in (0, 1))
        print(f"{name}: store {_span(kept)}, node {_span(memory)} MB, first and second half of {len(seen)} looks")
    for name, seen in looks.items():
        half = len(seen) // 2
        for column, what in enumerate(("store", "node")):
            first, second = (max(pair[column] for pair in part) for part in (seen[:half], seen[half:]))
            most = max(first * GROWTH, first + SOME_PAGES)
            assert second <= most, f"{name}: the {what} grew from {first} to {second} bytes"
    assert [code for soak in soaks.values() for code in soak.fleet.stop()] == [0] * len(soaks)


def _span(values: Sequence[float]) -> str:
    half = len(values) // 2
    return " then ".join(f"{min(part):.1f}–{max(part):.1f}" for part in (values[:half], values[half:]))
