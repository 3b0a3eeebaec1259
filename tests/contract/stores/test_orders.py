"""Orders reach a run on another node within a second by polling alone: nobody is notified of anything here."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.contract.stores.conftest import forget
from tests.servers import mariadb, postgres, redis
from tests.unit.node.world import ScriptedExecutor
from tokimori.clock import SystemClock
from tokimori.model.transitions import RunState
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.ports.executor import StopReason
from tokimori.ports.store import Store
from tokimori.service.service import Service, service_on
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.open import open_store

CLOCK = SystemClock()
WITHIN = 1.0
"""Seconds, as promised."""
URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory:",
    "sqlite": lambda folder: f"sqlite:///{folder}/t.db",
    "postgres": postgres.loans.url_of,
    "redis": redis.loans.url_of,
    "mariadb": mariadb.loans.url_of,
}
Elsewhere = tuple[Node, ScriptedExecutor, Service]


@pytest.fixture(params=[*(pytest.param(name, marks=pytest.mark.prove) if name != "sqlite" else name for name in URLS)])
async def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Elsewhere]:
    """A node at work, and somebody with a connection of his own."""
    url = URLS[request.param](tmp_path)
    here: Store = MemoryStore(CLOCK) if url == "memory:" else open_store(url, CLOCK)
    there = here if url == "memory:" else open_store(url, CLOCK)
    for store in {id(each): each for each in (here, there)}.values():
        await store.open()
    await here.migrate()
    there.watch = lambda wake: None  # type: ignore[method-assign]
    executor = ScriptedExecutor(CLOCK)
    node = Node(there, executor, CLOCK, os.urandom, Identity(host="h", boot_id="b", pid=1, version="0", stop_grace=5))
    await executor.open(node.receive)
    await node.start()
    working = asyncio.create_task(node.run())
    yield node, executor, service_on(here, CLOCK, os.urandom, author="ada")
    executor.end_all()
    node.stop()
    await working
    for store in {id(each): each for each in (here, there)}.values():
        await store.close()
    forget(request.param, tmp_path)


async def until(true: Callable[[], object]) -> float:
    """Seconds until it holds, some at most."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() < began + 10
        await asyncio.sleep(0.005)
    return time.monotonic() - began


async def test_cancel_and_restart_reach_a_run_on_another_node_in_time(elsewhere: Elsewhere) -> None:
    """Each within a second; a restarted run is at work again, and a cancelled one is not."""
    _, executor, service = elsewhere
    await service.jobs.add("long", noop=True)
    run = await service.jobs.trigger("long")
    await until(lambda: executor.running == [run.id])
    await asyncio.sleep(0.6)
    await service.runs.restart(run.id)
    restarted = await until(lambda: executor.stops)
    assert executor.stops[0].reason is StopReason.RESTART
    executor.obey()
    executor.stops.clear()
    await until(lambda: executor.running == [run.id])
    await asyncio.sleep(0.6)
    await service.runs.cancel(run.id)
    cancelled = await until(lambda: executor.stops)
    executor.obey()
    ended = await service.runs.wait(run.id, 10)
    assert (ended.state, ended.attempt) == (RunState.CANCELLED, 2)
    assert max(restarted, cancelled) < WITHIN


async def test_a_node_that_works_is_drained_and_stopped_in_time(elsewhere: Elsewhere) -> None:
    """It takes nothing new, and then leaves once its run has ended."""
    node, executor, service = elsewhere
    await service.jobs.add("long", noop=True)
    run = await service.jobs.trigger("long")
    await until(lambda: executor.running == [run.id])
    began = time.monotonic()
    await service.nodes.drain(node.id)
    assert await until(lambda: node.unready) + time.monotonic() - began < WITHIN + 0.5  # it was waited for
    await service.jobs.trigger("long")
    await asyncio.sleep(1.2)
    assert executor.running == [run.id]
    await service.nodes.stop(node.id)
    assert await until(lambda: node.phase.value == "draining") < WITHIN
    executor.end_all()
    await until(lambda: node.finished)
