"""Many open tabs at a real node: what they cost the store, counted in statements of its server, and the node."""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.servers import postgres

TABS, BUSY, SECONDS = 200, 2, 12.0
LOOKS = 60
"""Statements in a second of a reader that looks four times a second: far more than it needs."""
OF_A_SCREEN = 6
"""Statements for each refresh: to read the screen again for each tab takes fifteen on a store with next to nothing."""


class Tabs:
    """Tabs as the page's script is: each hears of changes, and asks for its screen after one."""

    def __init__(self, site: Site) -> None:
        self._where, self._secret = urlsplit(site.url), site.secret
        self.heard, self.refreshed = Counter[int](), 0

    async def ask(self, path: str, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The answer, from its first byte on."""
        reader, writer = await asyncio.open_connection(self._where.hostname, self._where.port)
        lines = (f"GET {path} HTTP/1.1", f"Host: {self._where.netloc}", f"Authorization: Bearer {self._secret}")
        writer.write("\r\n".join([*lines, *headers, "\r\n"]).encode())
        return reader, writer

    async def listen(self, number: int, stale: asyncio.Event) -> None:
        """Hear what changes."""
        reader, writer = await self.ask("/api/v2/notices?every=2&of=runs&of=jobs", "Accept: text/event-stream")
        try:
            while line := await reader.readline():
                if line.startswith(b"event: "):
                    self.heard[number] += 1
                    stale.set()
        finally:
            writer.close()

    async def refresh(self, stale: asyncio.Event) -> None:
        """Ask for the first screen when it is stale, as often as the script does."""
        while await stale.wait():
            stale.clear()
            reader, writer = await self.ask("/", "Accept: text/html", "tokimori-part: 1", "Connection: close")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            assert head.startswith(b"HTTP/1.1 200 "), head
            took = int(re.findall(rb"page;dur=(\d+)", head)[0])
            self.refreshed += 1
            await asyncio.sleep(max(2.0, 0.0015 * len(body) / 5, min(0.2 * took, 10)))


def spent_by(site: Site) -> float:
    """Seconds of a processor that the node has spent."""
    words = Path(f"/proc/{site.node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Costs:
    """Statements and time of a processor in each second."""

    def __init__(self, site: Site, server: postgres.Server) -> None:
        self._site, self._server = site, server

    def _statements(self) -> int:
        return int(self._server.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'tabs'"))

    async def of(self, seconds: float) -> tuple[float, float]:
        """What the next seconds cost. A server counts with a second's delay."""
        began, statements, spent = time.monotonic(), self._statements(), spent_by(self._site)
        await asyncio.sleep(seconds)
        took, statements = time.monotonic() - began, self._statements() - statements
        return statements / took, (spent_by(self._site) - spent) / took


async def measured(site: Site, server: postgres.Server) -> Sequence[str]:
    """What is wrong with the costs, after printing them."""
    tabs, costs = Tabs(site), Costs(site, server)
    await asyncio.sleep(4)
    alone, idle = await costs.of(SECONDS)
    stale = [asyncio.Event() for _ in range(TABS)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(tabs.listen(n, each)) for n, each in enumerate(stale)]
        await asyncio.sleep(4)
        tabs.heard.clear()
        heard, listening = await costs.of(SECONDS)
        deaf = TABS - len(tabs.heard)
        tasks += [group.create_task(tabs.refresh(each)) for each in stale]
        await asyncio.sleep(4)
        tabs.refreshed = 0
        seen, working = await costs.of(SECONDS)
        for task in tasks:
            task.cancel()
    rate = tabs.refreshed / SECONDS
    each = (seen - heard) / rate
    print(f"{TABS} streams: {heard - alone:+.0f} statements a second to {alone:.0f}, {listening - idle:+.1%} of a core")
    print(f"with {rate:.0f} refreshes a second: {each:.1f} statements for each, {working - idle:+.1%} of a core")
    found = {"a reader for each": heard - alone > LOOKS, "a reading for each": each > OF_A_SCREEN, "deaf": deaf > 0}
    return [fault for fault, is_so in found.items() if is_so]


@pytest.mark.prove
def test_200_tabs_cost_the_store_one_reader(tmp_path: Path) -> None:
    """Their streams have one reader of changes, which all of them hear, and their refreshes share readings."""
    program, server = Program(tmp_path), postgres.Server()
    try:
        program.environment["TOKIMORI_STORE"] = server.make("tabs")
        with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
            for n in range(BUSY):
                client.jobs.add(f"busy-{n}", noop=True, schedule="every 1 second")
        with site_of(program) as site:
            assert asyncio.run(measured(site, server)) == []
    finally:
        server.remove()
