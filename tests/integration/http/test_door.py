import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Event

import aiohttp
import pytest

from tests.unit.api.asgi import BEARER, SECRET
from tokimori.api.app import Health, create_app
from tokimori.api.server import HttpDoor
from tokimori.clock import SystemClock
from tokimori.config.settings import load_settings
from tokimori.executors.executors import executors_of
from tokimori.executors.http.callbacks import Callbacks
from tokimori.metrics import Metrics
from tokimori.node.http_door import http_door
from tokimori.node.node import Node
from tokimori.node.wiring import identity_of, service_of
from tokimori.service.schema import open_prepared
from tokimori.service.service import service_on
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.sqlite.store import SqliteStore
from tokimori.web.page import Page


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a door on a memory store."""
    clock = SystemClock()
    service = service_on(MemoryStore(clock), clock, os.urandom)
    health = Health(status="ok", node_id="n", store_reachable=True, version="1")
    app = create_app(
        service,
        clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: health,
        pages=Page(lambda _: service, clock).routes(),
    )
    door = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False)
    await door.start()
    async with aiohttp.ClientSession(door.url, headers=BEARER) as session:
        yield session
    await door.stop()


async def test_from_job_to_page(http: aiohttp.ClientSession) -> None:
    """What is added over HTTP is listed, triggered and shown on the page."""
    body = {"id": "hello", "command": ["echo", "hi there"]}
    async with http.post("/api/v2/jobs", json=body) as answer:
        assert answer.status == 201
        place = answer.headers["location"]
    async with http.post(f"{place}/trigger", json={}) as answer:
        run = await answer.json()
    async with http.get("/api/v2/runs") as answer:
        assert [each["id"] for each in await answer.json()] == [run["id"]]
    for path, shown in ((f"/runs/{run['id']}", run["id"]), ("/jobs/hello?tab=definition", "echo &#39;hi there&#39;")):
        async with http.get(path) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
            assert shown in await answer.text()


async def test_strangers_are_refused(http: aiohttp.ClientSession) -> None:
    """What a strange web page could send changes nothing, on a real socket too."""
    job = {"id": "x", "noop": True}
    async with http.post("/api/v2/jobs", json=job, headers={"Origin": "http://evil.example"}) as answer:
        assert answer.status == 403
    async with http.post("/api/v2/jobs", json=job, headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403
    async with http.post("/api/v2/jobs", data='{"id": "x", "noop": true}') as answer:
        assert answer.status == 415
    async with http.get("/api/v2/jobs") as answer:
        assert await answer.json() == []


async def test_a_large_body_is_refused_before_it_is_sent(http: aiohttp.ClientSession) -> None:
    """A client that says how much it wants to send, and asks first, hears no before it sends anything."""
    body = BytesIO(b" " * ((1 << 20) + 1))
    headers = {"Content-Type": "application/json"}
    async with http.post("/api/v2/jobs", data=body, headers=headers, expect100=True) as answer:
        assert answer.status == 413


async def test_a_body_of_unknown_length_is_refused_when_it_is_too_large(http: aiohttp.ClientSession) -> None:
    """A body that comes in chunks is read up to 1 MiB."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * (1 << 16)

    async with http.post("/api/v2/jobs", data=chunks(), headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 413


async def test_the_door_of_a_node_is_answered_while_its_own_reads_wait(tmp_path: Path) -> None:
    """What is asked through it goes through a connection of its own: neither waits for the other."""
    clock, busy = SystemClock(), Event()
    settings = load_settings({"http.port": 0, "state_dir": str(tmp_path)}, {}, cwd=tmp_path).settings
    store = SqliteStore(str(tmp_path / "a.db"), clock)
    await open_prepared(store)
    node = Node(store, executors_of(clock, tmp_path), clock, os.urandom, identity_of(settings))
    waiting = asyncio.ensure_future(store._read(lambda _db: busy.wait()))
    try:
        async with (
            http_door(
                node,
                store,
                None,
                settings,
                clock,
                service_of=partial(service_of, settings=settings, clock=clock, node=node),
                callbacks=Callbacks(),
                metrics=Metrics(),
            ) as (url, secret),
            aiohttp.ClientSession() as session,
            asyncio.timeout(20),
        ):
            headers = {"Authorization": f"Bearer {secret}"}
            async with session.get(f"{url.rstrip('/')}/api/v2/jobs", headers=headers) as answer:
                assert (answer.status, await answer.json()) == (200, [])
        assert not waiting.done()
    finally:
        busy.set()
    await waiting
    await store.close()
