"""The thread of a synchronous client."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from threading import Event, Thread
from typing import Any

import pytest

from tokimori.client.facade import Background, _iterated


def in_time(act: Callable[[], object]) -> bool:
    """Whether this ends within some seconds."""
    thread = Thread(target=act, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


async def counted(ended: Event) -> AsyncGenerator[int, None]:
    """Numbers, and a word at the end."""
    try:
        for number in range(3):
            yield number
    finally:
        ended.set()


def left_in(client: Background[object], ended: Event) -> list[Iterator[int]]:
    """The only reference to a stream of which one item was read."""
    found = [_iterated(client.run, lambda _: counted(ended))]
    assert next(found[0]) == 0
    return found


@asynccontextmanager
async def nothing() -> AsyncIterator[object]:
    """An object without a use."""
    yield None


def test_a_stream_that_is_collected_on_the_clients_thread_ends() -> None:
    """The garbage collector works on any thread: there nobody may wait for that thread itself."""
    client, ended = Background[object](nothing), Event()
    left = left_in(client, ended)

    async def collect(_: object) -> None:
        left.clear()

    assert in_time(lambda: client.run(collect))
    assert ended.wait(10)
    assert in_time(client.close)


def test_a_client_closes_while_a_stream_is_collected_there() -> None:
    """What closes the client lets the stream ask for it, and be refused."""
    left = list[Iterator[int]]()

    @asynccontextmanager
    async def collecting() -> AsyncIterator[object]:
        yield None
        left.clear()

    client = Background[object](collecting)
    left += left_in(client, Event())
    assert in_time(client.close)


def test_a_stream_that_is_collected_while_another_call_begins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that collects it holds the lock of the client, which the end of the stream needs, too."""
    client, ended, submit = Background[object](nothing), Event(), asyncio.run_coroutine_threadsafe
    left = left_in(client, ended)

    def collecting(*given: Any) -> Any:
        left.clear()
        return submit(*given)

    async def idle(_: object) -> None:
        pass

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", collecting)
    assert in_time(lambda: client.run(idle))
    assert ended.is_set()
    assert in_time(client.close)


def test_of_two_that_close_a_client_the_second_waits_for_its_end() -> None:
    """Whoever returns from closing it may delete its store."""
    closing, go, closed = Event(), Event(), list[str]()

    @asynccontextmanager
    async def slow() -> AsyncIterator[object]:
        yield None
        closing.set()
        await asyncio.to_thread(go.wait, 10)
        closed.append("store")

    client = Background[object](slow)
    assert in_time(lambda: client.run(lambda _: asyncio.sleep(0)))
    first = Thread(target=client.close, daemon=True)
    first.start()
    assert closing.wait(10)

    def close_too() -> None:
        client.close()
        closed.append("second")

    second = Thread(target=close_too, daemon=True)
    second.start()
    go.set()
    second.join(10)
    first.join(10)
    assert closed == ["store", "second"]
