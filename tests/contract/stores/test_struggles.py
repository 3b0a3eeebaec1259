"""Many nodes and programs, a few units: nobody has more than there are, none is leaked, and all get theirs."""

import asyncio
import sqlite3
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import msgspec
import pytest

from tests.contract.stores.actors import NOW, Worker
from tests.contract.stores.struggle import Use, add_work, check, take_part
from tokimori.clock import SystemClock
from tokimori.model.ids import NodeId
from tokimori.model.outcome import Lost
from tokimori.ports.nodes import NodeState
from tokimori.ports.store import Store
from tokimori.stores.open import open_store

ROOT = Path(__file__).parents[3]
sizes = pytest.mark.parametrize("runs", [12, pytest.param(40, marks=pytest.mark.prove)])
"""Of each job."""

WATCH = """
CREATE TRIGGER watch_{event} AFTER {event} ON tokimori_permits
WHEN (SELECT sum(weight) FROM tokimori_permits WHERE semaphore = NEW.semaphore AND token IS NOT NULL)
    > (SELECT "limit" FROM tokimori_semaphores WHERE name = NEW.semaphore)
BEGIN INSERT INTO exceeded VALUES (NEW.id); END;
"""
"""Looks at every change of who holds what, whatever its transaction does later."""


@sizes
async def test_four_nodes_and_programs_of_one_process(store: Store, runs: int) -> None:
    """However they take turns, units and keys are exact, and everybody is served in the end."""
    await add_work(store, runs)
    done = await asyncio.gather(*(take_part(store, seed) for seed in range(4)))
    await check(store, runs, [use for part in done for use in part])


@sizes
async def test_four_processes_share_one_sqlite_file(tmp_path: Path, runs: int) -> None:
    """Neither at a commit nor between two statements are more units held than there are, though a process is killed."""
    url = f"sqlite://{tmp_path}/tokimori.db"
    store = open_store(url, SystemClock())
    await store.open()
    await store.migrate()
    await add_work(store, runs)
    db = sqlite3.connect(tmp_path / "tokimori.db")
    db.execute("CREATE TABLE exceeded (permit TEXT)")
    for event in ("INSERT", "UPDATE"):
        db.execute(WATCH.format(event=event))
    db.commit()
    start = asyncio.Barrier(5)
    done, _ = await asyncio.gather(
        asyncio.gather(*(in_a_process(url, seed, start) for seed in range(4))), killed_amid_it(store, url, start)
    )
    await check(store, runs, [use for part in done for use in part])
    await store.close()
    assert db.execute("SELECT * FROM exceeded").fetchall() == []
    db.close()


async def killed_amid_it(store: Store, url: str, start: asyncio.Barrier) -> None:
    """A process that is killed while it holds units: its nodes are buried, and its runs taken over."""
    process = await started(url, 4)
    await start.wait()
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    while not await holds_some(store, process.pid):
        pass
    process.kill()
    await process.communicate()
    heir = await Worker.join(store)
    for node in await store.list_nodes():
        if node.pid == process.pid and node.state is NodeState.ALIVE:
            assert await store.bury(node.id, node.beat, heir.id, NOW)
    while orphans := await store.orphans(3):
        changes = [Worker(store, NodeId(each.run.node_id or "")).change(each, Lost("killed")) for each in orphans]
        await store.settle(changes, heir.id, NOW)


async def holds_some(store: Store, pid: int) -> bool:
    """Whether a node of this process holds units."""
    nodes = {node.id for node in await store.list_nodes() if node.pid == pid}
    return any(permit.node in nodes for each in await store.list_semaphores() for permit in each.holders)


async def started(url: str, seed: int) -> asyncio.subprocess.Process:
    """A process that is ready to take part."""
    command = [sys.executable, "-m", "tests.contract.stores.struggle", url, str(seed)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def in_a_process(url: str, seed: int, start: asyncio.Barrier) -> list[Use]:
    """Take part from a process of its own, once all are ready to."""
    process = await started(url, seed)
    await start.wait()
    answer, faults = await process.communicate(b"go\n")
    assert process.returncode == 0, faults.decode()
    return msgspec.json.decode(answer, type=list[Use])
