"""The stores that must keep the promises: one line each."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.contract.stores.actors import NOW, Worker
from tests.servers import mariadb, postgres, redis
from tokimori.clock import Moment
from tokimori.ports.store import Store
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.mysql import address as mysql_address
from tokimori.stores.mysql.store import MysqlStore
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.redis.address import address_of as redis_address_of
from tokimori.stores.redis.store import RedisStore
from tokimori.stores.sqlite import connection
from tokimori.stores.sqlite.store import SqliteStore


class StoppedClock:
    """A clock that stands still."""

    def now(self) -> Moment:
        """The new year of 2030."""
        return NOW

    def monotonic(self) -> float:
        """Always the same."""
        return 0.0


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _folder: MemoryStore(StoppedClock()),
    "sqlite": lambda folder: SqliteStore(str(folder / "tokimori.db"), StoppedClock()),
    "postgres": lambda folder: PostgresStore(address_of(postgres.loans.url_of(folder)), StoppedClock()),
    "redis": lambda folder: RedisStore(redis_address_of(redis.loans.url_of(folder)), StoppedClock()),
    "mariadb": lambda folder: MysqlStore(mysql_address.address_of(mariadb.loans.url_of(folder)), StoppedClock()),
}


def forget(name: str, folder: Path) -> None:
    """Remove what a store keeps elsewhere than in its folder."""
    if name == "postgres":
        postgres.loans.give_back(folder)
    if name == "redis":
        redis.loans.give_back(folder)
    if name == "mariadb":
        mariadb.loans.give_back(folder)


@pytest.fixture(autouse=True)
def no_session_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's sessions are opened when they are wanted: most tests want one, and each costs 15 ms."""
    monkeypatch.setattr("tokimori.stores.postgres.store.FIRST_SESSIONS", 1)


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's commits outlive their process, and no power fails here: thousands of them wait for no disk."""
    hasty = tuple(each.replace("synchronous = FULL", "synchronous = OFF") for each in connection._SETTINGS)
    monkeypatch.setattr(connection, "_SETTINGS", hasty)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store with its tables."""
    opened = STORES[request.param](tmp_path)
    await opened.open()
    await opened.migrate()
    yield opened
    await opened.close()
    forget(request.param, tmp_path)


@pytest.fixture
async def worker(store: Store) -> Worker:
    """A living node."""
    return await Worker.join(store)


@pytest.fixture
async def other(store: Store) -> Worker:
    """Another living node."""
    return await Worker.join(store)
