"""Calls that go together: who comes while others are under way shares the next statement."""

import asyncio
from collections.abc import Sequence

import pytest

from tokimori import turns
from tokimori.errors import Refused, StoreUnavailable
from tokimori.turns import Together


class Server:
    """A server that answers when it is told to; it refuses any batch with an odd number in it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.goes_on = asyncio.Event()
        self.is_away = False

    async def act(self, _: str, values: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(values))
        await self.goes_on.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        if any(value % 2 for value in values):
            raise Refused(f"{values} are odd")
        return [value * 10 for value in values]


async def begun(server: Server, numbers: Sequence[int]) -> list[asyncio.Task[int]]:
    """Calls that have begun, in this order."""
    calls = Together(server.act)
    tasks = [asyncio.create_task(calls("job", number)) for number in numbers]
    await asyncio.sleep(0)
    return tasks


async def test_those_who_wait_share_the_next_one() -> None:
    """The first ones go at once, alone; all others together; each gets its own answer."""
    server = Server()
    tasks = await begun(server, [0, 2, 4, 6, 8])
    assert server.batches == [[0], [2]]
    server.goes_on.set()
    assert await asyncio.gather(*tasks) == [0, 20, 40, 60, 80]
    assert server.batches == [[0], [2], [4, 6, 8]]


async def test_one_that_is_refused_hinders_no_other() -> None:
    """Each of a batch that is refused is tried alone."""
    server = Server()
    tasks = await begun(server, [0, 2, 4, 5, 6])
    server.goes_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in found if not isinstance(each, Refused)] == [0, 20, 40, 60]
    assert str(found[3]) == "[5] are odd"


async def test_a_server_that_is_away_is_asked_once() -> None:
    """All of a batch get its error: each retries for itself."""
    server = Server()
    server.is_away = True
    tasks = await begun(server, [0, 2, 4, 6])
    server.goes_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnavailable] * 4
    assert server.batches == [[0], [2], [4, 6]]


async def test_who_gives_up_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is cancelled asks for nothing; a batch is bounded; nothing is left behind."""
    monkeypatch.setattr(turns, "MOST", 2)
    server = Server()
    calls = Together(server.act)
    tasks = [asyncio.create_task(calls("job", number)) for number in (0, 2, 4, 6, 8, 10)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    server.goes_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in found if isinstance(each, int)] == [0, 20, 60, 80, 100]
    assert server.batches == [[0], [2], [6, 8], [10]]
    assert not calls._lines
