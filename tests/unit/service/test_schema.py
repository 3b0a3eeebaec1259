"""Opening a store."""

import pytest

from tests.unit.examples import NEW_YEAR
from tokimori.clock import Clock, Moment
from tokimori.errors import SchemaMismatch
from tokimori.ports.store import SchemaStatus
from tokimori.service.schema import open_prepared
from tokimori.stores.memory.store import MemoryStore


class Stopped:
    """A clock that stands."""

    def now(self) -> Moment:
        return NEW_YEAR

    def monotonic(self) -> float:
        return 0.0


class VersionedStore(MemoryStore):
    """A memory store with a schema to choose."""

    def __init__(self, clock: Clock, status: SchemaStatus) -> None:
        super().__init__(clock)
        self.status = status
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False

    async def schema(self) -> SchemaStatus:
        return self.status

    async def migrate(self) -> SchemaStatus:
        self.status = SchemaStatus(version=2, newest=2, pending=(), oldest=2)
        return self.status


async def test_an_empty_store_gets_its_tables() -> None:
    """Whoever comes first creates them."""
    store = VersionedStore(Stopped(), SchemaStatus(version=None, newest=2, pending=("0001", "0002"), oldest=0))
    await open_prepared(store)
    assert (store.is_open, store.status.version) == (True, 2)


async def test_a_newer_schema_is_used_whose_migrations_allow_it() -> None:
    """Nodes are replaced one by one: those of before go on, and new ones of them may start."""
    status = SchemaStatus(version=4, newest=2, pending=(), oldest=2)
    store = VersionedStore(Stopped(), status)
    await open_prepared(store)
    assert (store.is_open, store.status) == (True, status)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (SchemaStatus(version=4, newest=2, pending=(), oldest=3), "nodes since 3 can use.*install a newer version"),
        (SchemaStatus(version=1, newest=2, pending=("0002",), oldest=1), "tokimori db migrate"),
    ],
)
async def test_another_schema_is_refused(status: SchemaStatus, said: str) -> None:
    """Neither a newer nor an older schema is touched; the store is closed again."""
    store = VersionedStore(Stopped(), status)
    with pytest.raises(SchemaMismatch, match=said):
        await open_prepared(store)
    assert (store.is_open, store.status) == (False, status)
