"""A world on a store in memory, and one on SQLite."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.perfectsched.world import World, a_world
from tokimori.clock import Clock
from tokimori.perfectsched import ScheduleCollection
from tokimori.ports.store import Store
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Without any program yet."""
    shared: list[MemoryStore] = []

    def memory(clock: Clock) -> Store:
        shared.append(shared[0] if shared else MemoryStore(clock))
        return shared[0]

    def sqlite(clock: Clock) -> Store:
        return SqliteStore(str(tmp_path / "tokimori.db"), clock)

    kinds: dict[str, Callable[[Clock], Store]] = {"memory": memory, "sqlite": sqlite}
    with a_world(kinds[request.param]) as world:
        yield world


@pytest.fixture
def schedules(world: World) -> ScheduleCollection:
    """The collection of one program."""
    return world.collection()
