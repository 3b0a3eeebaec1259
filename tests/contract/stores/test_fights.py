"""Many nodes, one store, 1,000 runs: none lost, none doubled, no limit exceeded."""

import asyncio
import sqlite3
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import msgspec
import pytest

from tests.contract.stores.conftest import forget
from tests.contract.stores.fight import Execution, add_work, check, take_part
from tests.servers import mariadb, postgres
from tokimori.clock import SystemClock
from tokimori.ports.store import Store
from tokimori.stores.open import open_store

ROOT = Path(__file__).parents[3]


async def test_eight_tasks_share_the_work(store: Store) -> None:
    """Eight nodes of one process carry out 1,000 runs, each exactly once."""
    jobs = await add_work(store)
    done = await asyncio.gather(*(take_part(store, seed) for seed in range(8)))
    assert sum(bool(part) for part in done) == 8
    await check(store, jobs, [each for part in done for each in part])


async def test_four_processes_share_one_sqlite_file(tmp_path: Path) -> None:
    """Four processes carry out 1,000 runs of one file, each exactly once, and leave the file sound."""
    url = f"sqlite://{tmp_path}/tokimori.db"
    store = open_store(url, SystemClock())
    await store.open()
    await store.migrate()
    jobs = await add_work(store)
    start = asyncio.Barrier(4)
    done = await asyncio.gather(*(in_a_process(url, seed, start) for seed in range(4)))
    assert sum(bool(part) for part in done) >= 2
    await check(store, jobs, [each for part in done for each in part])
    await store.close()
    with sqlite3.connect(tmp_path / "tokimori.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


@pytest.mark.prove
@pytest.mark.parametrize(("name", "loans"), [("postgres", postgres.loans), ("mariadb", mariadb.loans)])
async def test_four_processes_share_one_database(
    name: str, loans: postgres.Loans | mariadb.Loans, tmp_path: Path
) -> None:
    """Four processes carry out 1,000 runs of one database, each exactly once."""
    url = loans.url_of(tmp_path)
    store = open_store(url, SystemClock())
    await store.open()
    await store.migrate()
    jobs = await add_work(store)
    start = asyncio.Barrier(4)
    done = await asyncio.gather(*(in_a_process(url, seed, start) for seed in range(4)))
    assert sum(bool(part) for part in done) >= 2
    await check(store, jobs, [each for part in done for each in part])
    await store.close()
    forget(name, tmp_path)


async def in_a_process(url: str, seed: int, start: asyncio.Barrier) -> list[Execution]:
    """Take part from a process of its own, once all are ready to."""
    command = [sys.executable, "-m", "tests.contract.stores.fight", url, str(seed)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT)
    assert process.stdout is not None
    await process.stdout.readline()
    await start.wait()
    answer, faults = await process.communicate(b"go\n")
    assert process.returncode == 0, faults.decode()
    return msgspec.json.decode(answer, type=list[Execution])
