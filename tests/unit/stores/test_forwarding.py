"""Methods of stores that are functions of their modules: what callers see of them."""

import inspect

import pytest

from tokimori.ports.store import Store
from tokimori.stores.forwarding import forwarded, telling
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.mysql.store import MysqlStore
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.redis.store import RedisStore
from tokimori.stores.sqlite.store import SqliteStore

METHODS = [name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore, PostgresStore, MysqlStore, RedisStore])
def test_a_store_takes_what_the_protocol_says(kind: type[object]) -> None:
    """Each method has the protocol's parameters, with the same names and defaults: mypy does not compare the names."""
    assert len(METHODS) > 50
    assert {name: parameters(kind, name) for name in METHODS} == {name: parameters(Store, name) for name in METHODS}


def parameters(kind: type[object], method: str) -> list[tuple[str, object, object]]:
    """What the method takes besides the store: name, whether by position, and default."""
    _, *others = inspect.signature(getattr(kind, method)).parameters.values()
    return [(each.name, each.kind, each.default) for each in others]


class Shop:
    """A store with one connection, which notes what it is asked to tell."""

    db = "connection"

    def __init__(self) -> None:
        self.told = 0

    def tell(self) -> None:
        """Note it."""
        self.told += 1


async def work(db: str, text: str, *, fails: bool = False) -> str:
    """See `Store.work`."""
    if fails:
        raise ValueError(text)
    return f"{db}: {text}"


async def test_a_method_does_its_work_with_the_connection() -> None:
    """The work gets the store's connection and what was asked; its text is the method's."""
    method = forwarded(work)
    assert await method(Shop(), "hello") == "connection: hello"
    assert method.__doc__ == work.__doc__


async def test_a_store_tells_of_what_was_done() -> None:
    """Who watches is told once after the work, and not at all where it failed."""
    shop = Shop()
    method = telling(forwarded(work))
    assert await method(shop, "hello") == "connection: hello"
    with pytest.raises(ValueError, match="hello"):
        await method(shop, "hello", fails=True)
    assert shop.told == 1
