"""What clients that send half, send too much or do not read can do to the door: nothing for long."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from msgspec.structs import replace
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.integration.executors.workshop import file_descriptors, until
from tokimori.api.connections import MOST_CONNECTIONS, RESERVE, Limits, most_connections
from tokimori.api.http_connection import MOST_AHEAD, MOST_HEAD, MOST_HEADERS, MOST_PIECES, MOST_REQUEST
from tokimori.api.server import HttpDoor

LARGE = 8 << 20
"""Bytes of an answer that no socket keeps for its reader."""
SOON = 0.6
HASTY = Limits(head_within=SOON, body_within=SOON, taken_within=SOON, look_every=0.05)
PATIENT = Limits(look_every=0.05)
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body and answers with its size; to `/slow` after a while, to `/large` much, to `/early` unread."""
    path = Request(scope).url.path
    if path == "/slow":
        await asyncio.sleep(0.5)
    try:
        size = 0 if path == "/early" else len(await Request(scope, receive).body())
    except ClientDisconnect:
        return
    await PlainTextResponse("x" * LARGE if path == "/large" else f"{size} bytes")(scope, receive, send)


@asynccontextmanager
async def opened(limits: Limits = PATIENT, app: ASGIApp = app) -> AsyncIterator[HttpDoor]:
    door = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False, limits=limits)
    await door.start()
    try:
        yield door
    finally:
        await door.stop()


async def connected(door: HttpDoor, sent: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(sent)
    return reader, writer


async def told(door: HttpDoor, sent: bytes) -> bytes:
    """Everything that the door says until it closes."""
    reader, writer = await connected(door, sent)
    answer = b""
    try:
        while part := await asyncio.wait_for(reader.read(1 << 16), 10):
            answer += part
    except ConnectionError:  # it closed before it had read all
        pass
    writer.close()
    return answer


def asked(path: str = "/") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"GET", b"HTTP/1.1 408"),
        (GET + b"X: ", b"HTTP/1.1 408"),
        (POST + b"Content-Length: 5\r\n\r\nfour", b"HTTP/1.1 408"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n", b"HTTP/1.1 408"),
    ],
)
async def test_what_does_not_come_is_not_waited_for(sent: bytes, status: bytes) -> None:
    """A request whose headers or body do not come whole in time is refused with 408; a silent client is sent away."""
    async with opened(HASTY) as door:
        began = monotonic()
        answer = await told(door, sent)
        assert answer.startswith(status) and bool(answer) == bool(status)
        assert monotonic() - began >= SOON


async def test_time_runs_for_each_request_anew() -> None:
    """A connection lives as long as requests come, and ends in the middle of one that does not."""
    async with opened(HASTY) as door:
        reader, writer = await connected(door)
        for _ in range(6):
            writer.write(GET + b"\r\n")
            await reader.readuntil(b"0 bytes")
            await asyncio.sleep(SOON / 4)
        writer.write(GET)
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_body_that_was_answered_unread_is_not_waited_for() -> None:
    """A client that has its answer, but never ends its request, hears nothing more than the end."""
    async with opened(HASTY) as door:
        sent = b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nfour"
        answer = await told(door, sent)
        assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/1.1") == 1


async def test_a_slow_answer_is_waited_for() -> None:
    """The time-outs are those of clients: a request that the door takes longer to answer is answered."""
    async with opened(HASTY) as door:
        assert (await told(door, asked("/slow"))).endswith(b"0 bytes")


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"X: " + b"x" * MOST_HEAD + b"\r\n\r\n",
        GET + b"X: " + b"x" * 4 * MOST_HEAD,  # never ends
        b"GET /" + b"x" * MOST_HEAD + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        GET + b"".join(b"X%d: y\r\n" % number for number in range(MOST_HEADERS)) + b"\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(MOST_HEAD)),
    ],
)
async def test_headers_have_a_bound(sent: bytes) -> None:
    """More than 16 KiB or 100 headers, in front of a body or behind it, are refused with 431 as soon as they come."""
    async with opened() as door:
        answer = await told(door, sent)
        assert answer.startswith(b"HTTP/1.1 431")
        assert b'"field":"headers"' in answer


async def test_headers_up_to_the_bound_are_read() -> None:
    """A long cookie is no attack."""
    async with opened() as door:
        sent = GET + b"Connection: close\r\nX: " + b"x" * (MOST_HEAD - 100) + b"\r\n\r\n"
        assert (await told(door, sent)).startswith(b"HTTP/1.1 200")


async def test_headers_behind_a_body_are_not_the_requests() -> None:
    """Who has looked at the headers is not told others later."""
    seen: list[tuple[bytes, bytes]] = []

    async def looks(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        seen.extend(scope["headers"])
        await PlainTextResponse("")(scope, receive, send)

    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with opened(app=looks) as door:
        answer = await told(door, head + b"1\r\nx\r\n0\r\nContent-Type: application/json\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
    assert b"content-type" not in dict(seen)


@pytest.mark.parametrize(
    "body",
    [b"1\r\nx\r\n" * (MOST_PIECES + 1), b"1;" + b"e" * 1000 + b"\r\nx\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"],
)
async def test_a_request_has_a_bound(body: bytes) -> None:
    """A body in very many pieces, one with much around it, and one without end are refused with 413."""
    async with opened() as door:
        sent = POST + b"Transfer-Encoding: chunked\r\n\r\n" + body * (2 * MOST_REQUEST // len(body))
        assert (await told(door, sent)).startswith(b"HTTP/1.1 413")


async def test_some_requests_may_be_sent_ahead() -> None:
    """They are answered in their order; more of them at once end the connection."""
    async with opened() as door:
        ahead = b"".join(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (n, b"x" * n)
            for n in range(MOST_AHEAD)
        )
        answer = await told(door, ahead + asked())
        places = [answer.index(b"%d bytes" % number) for number in range(MOST_AHEAD)]
        assert places == sorted(places)
        assert (await told(door, (GET + b"\r\n") * (MOST_AHEAD + 2))).count(b"0 bytes") < MOST_AHEAD + 2


async def test_a_body_behind_requests_sent_ahead_is_not_waited_for() -> None:
    """The last of several may not come for ever either."""
    async with opened(HASTY) as door:
        answer = await told(door, GET + b"\r\n" + POST + b"Content-Length: 5\r\n\r\nfour")
        assert answer.count(b"HTTP/1.1 200") == 1
        assert b"HTTP/1.1 408" in answer


@pytest.mark.parametrize("sent", [b"", GET + b"X: ", POST + b"Content-Length: 5\r\n\r\nfour"])
async def test_the_door_has_room_beside_half_open_connections(sent: bytes) -> None:
    """Where there are as many as may be, those that wait longest for their client make room for the next."""
    async with opened(Limits(most=4)) as door:
        half = [await connected(door, sent) for _ in range(8)]
        assert (await asyncio.wait_for(told(door, asked()), 2)).endswith(b"0 bytes")
        ended = [reader.at_eof() or reader.exception() is not None for reader, _ in half]
        assert ended[:4] == [True] * 4
        for _, writer in half:
            writer.close()


async def test_who_waits_for_an_answer_is_not_sent_away() -> None:
    """Where all wait for the door, the next one waits until one of them has its answer."""
    started, go = asyncio.Semaphore(0), asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        started.release()
        await go.wait()
        await PlainTextResponse("done")(scope, receive, send)

    async with opened(Limits(most=2), waits) as door:
        first = [asyncio.create_task(told(door, asked())) for _ in range(2)]
        for _ in first:
            await asyncio.wait_for(started.acquire(), 5)
        last = asyncio.create_task(told(door, asked()))
        await asyncio.sleep(0.2)
        assert not last.done()
        go.set()
        assert [answer.endswith(b"done") for answer in await asyncio.gather(*first, last)] == [True] * 3


async def test_a_full_door_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line says that there are as many connections as may be, however many more come."""
    async with opened(Limits(most=2)) as door:
        for _, writer in [await connected(door, GET) for _ in range(40)]:
            writer.close()
    assert [record.getMessage()[:25] for record in caplog.records] == ["the HTTP server has 2 con"]


async def test_no_file_descriptor_left(caplog: pytest.LogCaptureFixture) -> None:
    """A door that can't take a connection says so once, tries again, and answers when it can."""
    async with opened() as door:
        clients = [socket.socket() for _ in range(20)]
        with file_descriptors(0):
            for client in clients:
                client.connect(("127.0.0.1", door.port))
            await asyncio.sleep(0.2)
        assert (await asyncio.wait_for(told(door, asked()), 5)).endswith(b"0 bytes")
        for client in clients:
            client.close()
    assert [record.message for record in caplog.records] == [
        "the HTTP server can't take a connection, and tries again every second: Too many open files"
    ]


async def test_requests_that_are_held_have_a_bound() -> None:
    """All bodies that have not come whole take no more room than is stated: those that take most go."""
    async with opened(Limits(most_held=100_000)) as door:
        sent = POST + b"Content-Length: 50000\r\n\r\n" + b"x" * 40_000
        small = await connected(door, GET)
        large = [await connected(door, sent) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert 0 < door.connections.held <= 100_000
        small[1].write(b"Connection: close\r\n\r\n")
        assert (await asyncio.wait_for(small[0].read(), 5)).endswith(b"0 bytes")
        for _, writer in [small, *large]:
            writer.close()


async def half_read(door: HttpDoor, path: str = "/large") -> socket.socket:
    """A client that has asked and does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", door.port))
    client.send(asked(path))
    return client


async def test_an_answer_that_nobody_reads_is_not_kept() -> None:
    """A client that does not read is gone after a while, and its answer with it."""
    async with opened(HASTY) as door:
        with await half_read(door):
            await asyncio.sleep(SOON / 2)
            assert len(door.connections) == 1
            await until(lambda: not len(door.connections))


async def test_answers_that_nobody_reads_have_a_bound() -> None:
    """All of them together take no more room than is stated, long before they take too long."""
    async with opened(Limits(most_untaken=LARGE, look_every=0.05)) as door:
        clients = [await half_read(door) for _ in range(4)]
        await until(lambda: len(door.connections) == 1)
        for client in clients:
            client.close()


async def test_a_slow_reader_gets_its_answer() -> None:
    """Who reads slowly, but reads, is not sent away, however long it takes altogether."""
    within = 4 * SOON  # of which a busy machine may take some
    async with opened(replace(HASTY, taken_within=within)) as door:
        client = await half_read(door)
        reader, writer = await asyncio.open_connection(sock=client, limit=1 << 16)
        size, began = 0, monotonic()
        while part := await asyncio.wait_for(reader.read(1 << 16), 10):
            size += len(part)
            if monotonic() - began < 2 * within:
                await asyncio.sleep(0.04)
        writer.close()
        assert size > LARGE
        assert monotonic() - began > 1.5 * within


async def test_the_door_closes_whatever_half_open_connections_there_are() -> None:
    """A node that stops does not wait for requests that do not come, nor for answers that nobody reads."""
    began = 0.0
    async with opened() as door:
        half = [await connected(door, GET), await connected(door, POST + b"Content-Length: 5\r\n\r\nfour")]
        await asyncio.sleep(0.1)
        began = monotonic()
    assert monotonic() - began < 3
    for _, writer in half:
        writer.close()


async def test_keep_alive_is_fast() -> None:
    """Answers leave at once: where Nagle's algorithm holds back the one behind another, each takes 40 ms."""
    async with opened() as door:
        reader, writer = await connected(door)
        seconds = []
        for _ in range(40):
            began = monotonic()
            writer.write(2 * (GET + b"\r\n"))
            for _ in range(2):
                await reader.readuntil(b"0 bytes")
            seconds.append(monotonic() - began)
        writer.close()
        assert min(seconds[20:]) < 0.02


@pytest.mark.parametrize(
    ("soft", "most"), [(700, 700 - RESERVE), (256, 64), (100_000, MOST_CONNECTIONS), (-1, MOST_CONNECTIONS)]
)
def test_the_engine_keeps_its_file_descriptors(soft: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The door has as many connections as the limit of file descriptors leaves beside what the engine needs."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert most_connections() == most
