"""Semaphores of synchronous and asynchronous programs, on one memory store in this process."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tokimori.client.client import Client, open_async
from tokimori.client.client import open as open_client
from tokimori.client.locks import SyncLock
from tokimori.errors import InvalidInput, NotGranted, Refused


@pytest.fixture
def client() -> Iterator[Client]:
    """One on a store of its own."""
    with open_client("memory:") as opened:
        yield opened


def test_a_mutex_is_held_for_a_block(client: Client) -> None:
    """It says under which token, and is free afterwards, whatever the block raises."""
    with client.mutex("table") as held:
        assert (held.token, held.lost) == (1, False)
        (found,) = client.semaphores.list()
        assert (found.name, found.limit, found.used, found.holders[0].pid) == ("table", 1, 1, os.getpid())
    with pytest.raises(ZeroDivisionError), client.mutex("table") as held:
        assert held.token == 2
        raise ZeroDivisionError
    assert client.semaphores.get("table").used == 0


def test_threads_exclude_each_other(client: Client) -> None:
    """A thread enters again what it holds; others wait, though the lock is one object for all of them."""
    lock = client.semaphore("api", limit=2)
    within = most = 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal within, most
        with lock, lock:
            with guard:
                within += 1
                most = max(most, within)
            threading.Event().wait(0.05)
            with guard:
                within -= 1

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(work) for _ in range(6)]:
            done.result()
    assert most == 2
    assert client.semaphores.get("api").used == 0


def test_a_lock_that_is_not_to_be_had(client: Client) -> None:
    """Not in time, of another limit, or heavier than the limit: each is an error of its own."""
    with client.mutex("table"), ThreadPoolExecutor(1) as threads:

        def enter(lock: SyncLock) -> None:
            with lock:
                raise AssertionError

        for lock, error in (
            (client.mutex("table", wait=0), NotGranted),
            (client.semaphore("table", limit=2), Refused),
            (client.semaphore("table", weight=2), Refused),
            (client.mutex("a b"), InvalidInput),
        ):
            with pytest.raises(error):
                threads.submit(enter, lock).result()


def test_limits_are_set_by_people(client: Client) -> None:
    """Made, listed and forgotten."""
    assert client.semaphores.set("api", 5).limit == 5
    with client.semaphore("api", weight=5):
        pass
    client.semaphores.delete("api")
    assert client.semaphores.list() == []


async def test_tasks_exclude_each_other() -> None:
    """`async with`, in a program that has a loop of its own: while one is within, all others wait."""
    within = done = 0
    async with open_async("memory:") as client, asyncio.timeout(10):
        lock = client.mutex("table")

        async def work() -> None:
            nonlocal within, done
            async with lock, lock:
                within += 1
                while (await client.semaphores.get("table")).waiting < 4 - done:
                    assert within == 1
                within -= 1
                done += 1

        await asyncio.gather(*(work() for _ in range(5)))
        with pytest.raises(ZeroDivisionError):
            async with lock as held:
                assert held.token == 6
                raise ZeroDivisionError
        assert (await client.semaphores.get("table")).used == 0
    assert done == 5
