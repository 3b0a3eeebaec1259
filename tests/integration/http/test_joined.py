"""What a client reads of an answer whose head and first piece are written together."""

import asyncio
import logging

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from tests.integration.http.test_connections import opened, told

HOST = b" HTTP/1.1\r\nHost: localhost\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """`/nothing` has no body, `/slow` takes a while; a bug ends `/begins` after its head, `/breaks` after a piece."""
    path = Request(scope).url.path
    if path in ("/begins", "/breaks"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if path == "/breaks":
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise RuntimeError("in the middle")
    if path == "/slow":
        await asyncio.sleep(0.05)
    response = Response(status_code=204) if path == "/nothing" else PlainTextResponse(f"this is {path}")
    await response(scope, receive, send)


async def answers(*asked: bytes) -> list[bytes]:
    """What is said to requests that are sent together, one text for each answer."""
    sent = b"".join(each + HOST + b"\r\n" for each in asked[:-1]) + asked[-1] + HOST + b"Connection: close\r\n\r\n"
    async with opened(app=app) as door:
        said = await asyncio.wait_for(told(door, sent), 20)
    return [b"HTTP/1.1" + each for each in said.split(b"HTTP/1.1")[1:]]


async def test_answers_are_whole_and_in_order() -> None:
    """HEAD has a head alone, 204 too, and of requests that were sent together the first is answered first."""
    head, slow, nothing, last = await answers(b"HEAD /a", b"GET /slow", b"POST /nothing", b"GET /b")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: 10\r\n" in head
    assert head.endswith(b"\r\n\r\n")
    assert slow.endswith(b"\r\n\r\nthis is /slow")
    assert nothing.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert nothing.endswith(b"\r\n\r\n")
    assert last.endswith(b"\r\n\r\nthis is /b")


@pytest.mark.parametrize(("path", "came"), [(b"/begins", b"\r\n\r\n"), (b"/breaks", b"\r\n\r\n5\r\nfirst\r\n")])
async def test_an_answer_that_breaks_off_looks_so(path: bytes, came: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """What there was of it comes, the last chunk does not, which tells the client, and nothing follows."""
    with caplog.at_level(logging.CRITICAL):
        (broken,) = await answers(b"GET " + path, b"GET /a")
    assert broken.startswith(b"HTTP/1.1 200 OK\r\n")
    assert broken.endswith(came)
    assert broken.count(b"\r\n\r\n") == 1
