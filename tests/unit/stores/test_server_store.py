"""What stores on a server share, and methods that are functions of their modules: what callers see of them."""

import asyncio
import inspect
from functools import partial

import pytest

from tokimori.clock import Moment
from tokimori.errors import StoreError, StoreUnavailable
from tokimori.model.ids import ClaimId, NodeId
from tokimori.ports.store import Store
from tokimori.ports.working import Claim, Claimed
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.mysql.store import MysqlStore
from tokimori.stores.notices import Notices, with_notice
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.redis.store import RedisStore
from tokimori.stores.server_store import Connected, ServerStore, forwarded
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


class Counter(Connected):
    """Connections that know whether they are open."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.is_open = True
        self.fails = False

    async def close(self) -> None:
        """See `Closing.close`."""
        if self.fails:
            raise OSError("stuck")
        self.is_open = False


class Shop(ServerStore[Counter]):
    """A store on a server that may refuse the first word."""

    def __init__(self, *, refuses: bool = False, notices: Notices | None = None) -> None:
        super().__init__("shop", self._counter, notices or Notices())
        self.made: list[Counter] = []
        self._refuses = refuses

    def _counter(self, most: int) -> Counter:
        self.made.append(Counter(most))
        return self.made[-1]

    async def _greet(self, db: Counter) -> list[str]:
        if self._refuses:
            raise StoreUnavailable("not today")
        return [f"{db.most} at most"]

    async def _claim(self, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
        return [], claim.limit > 1


async def work(db: Counter, text: str, *, fails: bool = False) -> str:
    """See `Store.work`."""
    if fails:
        raise ValueError(text)
    return f"{db.most}: {text}"


async def test_an_open_store_has_connections_of_its_own_for_beats() -> None:
    """Work and beats share no connection; closing ends both, and then there are none."""
    shop = Shop()
    await shop.open()
    assert (shop.db.most, shop.beats.most, shop.faults()) == (8, 1, ["8 at most"])
    await shop.close()
    assert [each.is_open for each in shop.made] == [False, False]
    with pytest.raises(StoreError, match="store shop is not open"):
        shop.db  # noqa: B018


async def test_a_store_that_is_refused_keeps_nothing_open() -> None:
    """What was opened for the first word is closed when the server refuses it."""
    shop = Shop(refuses=True)
    with pytest.raises(StoreUnavailable, match="not today"):
        await shop.open()
    assert [each.is_open for each in shop.made] == [False]


async def test_all_connections_end_whatever_befalls_one_of_them() -> None:
    """Where one of them fails to close, the others are closed all the same; a second close finds nothing left."""
    shop = Shop()
    await shop.open()
    shop.db.fails = True
    with pytest.raises(OSError, match="stuck"):
        await shop.close()
    assert [each.is_open for each in shop.made] == [True, False]
    await shop.close()


async def test_a_close_that_is_cancelled_ends_all_connections() -> None:
    """A notice that hangs keeps none of them open, and no later close from its end."""
    shop = Shop(notices=Notices(partial(asyncio.sleep, 3600)))
    await shop.open()
    shop.send_notice()
    closing = asyncio.create_task(shop.close())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert [each.is_open for each in shop.made] == [False, False]
    await shop.close()


async def test_a_method_does_its_work_with_the_connection() -> None:
    """The work gets the store's connections and what was asked; its text is the method's."""
    shop = Shop()
    await shop.open()
    method = forwarded(work)
    assert await method(shop, "hello") == "8: hello"
    assert method.__doc__ == work.__doc__


async def test_a_store_tells_of_what_was_done() -> None:
    """Who watches is told once after the work, and not at all where it failed."""
    shop, told = Shop(), list[bool]()
    await shop.open()
    shop.watch(lambda: told.append(True))
    method = with_notice(forwarded(work))
    assert await method(shop, "hello") == "8: hello"
    with pytest.raises(ValueError, match="hello"):
        await method(shop, "hello", fails=True)
    assert told == [True]


async def test_a_claim_that_has_left_something_wakes_who_watches_here() -> None:
    """Its own watchers hear at once that there is more to be claimed, and other nodes do not."""
    sent, woken = list[bool](), list[bool]()

    async def send(_: str) -> None:
        sent.append(True)

    shop = Shop(notices=Notices(send))
    shop.watch(lambda: woken.append(True))
    for limit in (1, 2):
        claim = Claim(id=ClaimId("c"), node=NodeId("n"), lanes=(), limit=limit)
        assert await shop.claim(claim, Moment(0)) == []
    await asyncio.sleep(0)
    assert (woken, sent) == ([True], [])
