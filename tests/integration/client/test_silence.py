"""A call over HTTP that waits long asks if its node is well, and fails for nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tokimori.client import door
from tokimori.client.door import Door, NodeAddress
from tokimori.errors import StoreUnavailable


class Node:
    """One that answers each call, and each question after its health, so many seconds later."""

    def __init__(self, *, call: float, health: float) -> None:
        self._call = call
        self._health = health
        self.checks = 0

    async def called(self, _: web.Request) -> web.Response:
        await asyncio.sleep(self._call)
        return web.json_response(7)

    async def asked(self, _: web.Request) -> web.Response:
        self.checks += 1
        await asyncio.sleep(self._health)
        return web.json_response({})


@asynccontextmanager
async def door_of(node: Node) -> AsyncIterator[Door]:
    """The open door of that node."""
    app = web.Application()
    app.add_routes([web.post("/{call:.*}", node.called), web.get("/healthz", node.asked)])
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    at = NodeAddress(url=f"http://127.0.0.1:{runner.addresses[0][1]}", secret="s")
    opened = Door(at, parent=lambda: None)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()
        await runner.cleanup()


async def asked(at: Door) -> object:
    async def lucky(_: object) -> int:
        raise NotImplementedError

    return await at.call("any.lucky", lucky, (), {})


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "SILENT", 0.2)
    monkeypatch.setattr(door, "HEALTH_WITHIN", 0.5)


async def test_more_calls_than_connections_wait_for_a_node_that_is_well() -> None:
    """The check needs none of their connections, and those that wait at a time share one."""
    node = Node(call=0.8, health=0.05)
    async with door_of(node) as at:
        await asyncio.gather(*(asked(at) for _ in range(101)))
    assert 2 <= node.checks < 20


async def test_an_answer_is_told_whatever_its_node_says_of_its_health() -> None:
    """It comes while the check waits, and the call does not wait for the end of that."""
    node = Node(call=0.35, health=1)
    async with door_of(node) as at:
        assert await asked(at) == 7
    assert node.checks == 1


async def test_a_node_that_says_nothing_is_told_to_all_that_wait() -> None:
    """One check is enough for them."""
    node = Node(call=1, health=1)
    async with door_of(node) as at:
        told = await asyncio.gather(*(asked(at) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [StoreUnavailable] * 3
    assert all("has said nothing for 0.7 s" in str(each) for each in told)
    assert node.checks == 1
