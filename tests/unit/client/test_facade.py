"""The thread of a synchronous client."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from threading import Event, Thread

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


def test_a_stream_that_is_collected_on_the_clients_thread_ends() -> None:
    """The garbage collector works on any thread: there nobody may wait for that thread itself."""

    @asynccontextmanager
    async def nothing() -> AsyncIterator[object]:
        yield None

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
