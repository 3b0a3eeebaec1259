"""Programs at a store that holds a part of a copy: whatever they want to write, they are refused."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import tokimori
from tests.servers import postgres
from tokimori.clock import SystemClock
from tokimori.engine.unfinished import UNFINISHED
from tokimori.errors import StoreError
from tokimori.stores.open import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/t.db"
        return
    yield postgres.loans.url_of(tmp_path)
    postgres.loans.give_back(tmp_path)


async def mark(url: str) -> None:
    """Begin a copy there, and be killed."""
    store = open_store(url, SystemClock())
    await store.open()
    await store.put_document(UNFINISHED, None)
    await store.close()


async def test_a_program_writes_nothing_into_a_part_of_a_copy(url: str) -> None:
    """Neither one that comes later nor one that is there: jobs, runs, locks, tokens, messages, secrets, calendars."""
    async with tokimori.open_async(url) as client:
        await client.jobs.add("j", noop=True)
        await mark(url)
        await asyncio.sleep(2 * client._shared.store.looks_every)
        for attempt in (
            client.jobs.add("k", noop=True),
            client.jobs.trigger("j"),
            client.tokens.create("t", "read"),
            client.channels.publish("topic", "message"),
            client.calendars.add("c", dates=["12-25"]),
            client.queues.pause("q"),
            client.sets.apply("s", {"k": {"noop": True}}),
            client.mutex("l", wait=1).__aenter__(),
        ):
            with pytest.raises(StoreError, match="a part of a copy"):
                await attempt
        if url.startswith("sqlite"):
            with sqlite3.connect(url.removeprefix("sqlite://")) as connection:
                connection.execute("BEGIN")
                with pytest.raises(StoreError, match="a part of a copy"):
                    await client.within(connection).jobs.trigger("j")
    with pytest.raises(StoreError, match="a part of a copy"):
        async with tokimori.open_async(url):
            pass
    store = open_store(url, SystemClock())
    await store.open()
    assert [job.id for job in await store.list_jobs()] == ["j"]
    await store.close()
