"""What is done to every answer when it is whole."""

import gzip

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tests.unit.api.asgi import Asker
from tokimori.api.finishing import LEAST_PACKED, MOST_ON_THE_LOOP, Finished
from tokimori.clock import SystemClock


@pytest.mark.parametrize("size", [LEAST_PACKED - 1, LEAST_PACKED, MOST_ON_THE_LOOP, 3 * MOST_ON_THE_LOOP])
async def test_an_answer_is_the_same_however_it_is_sent(size: int) -> None:
    """Short or long, packed or not: what its reader has in the end is what the application said."""
    door = Asker(Finished(Response(b"x" * size), SystemClock()))
    plain, packed = await door.get("/"), await door.get("/", **{"accept-encoding": "br, gzip"})
    assert plain.body == b"x" * size
    assert "content-encoding" not in plain.headers
    if size < LEAST_PACKED:
        assert packed.body == plain.body
    else:
        assert gzip.decompress(packed.body) == plain.body
        assert packed.headers["content-length"] == str(len(packed.body))
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


async def test_what_an_answer_says_itself_stays() -> None:
    """Two headers of one name, and its own word on caches; the date is the door's."""
    response = Response(b"hello")
    response.raw_headers += [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"cache-control", b"max-age=60")]
    response.raw_headers += [(b"date", b"yesterday")]
    sent = await _sent(Finished(response, SystemClock()))
    headers: list[tuple[bytes, bytes]] = sent[0]["headers"]
    assert [value for name, value in headers if name == b"set-cookie"] == [b"a=1", b"b=2"]
    assert [value for name, value in headers if name == b"cache-control"] == [b"max-age=60"]
    (date,) = [value for name, value in headers if name == b"date"]
    assert date.endswith(b"GMT")


async def test_an_answer_in_pieces_is_passed_on_as_it_comes() -> None:
    """With the headers that restrict a browser."""

    async def two_pieces(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two", "more_body": False})

    start, *pieces = await _sent(Finished(two_pieces, SystemClock()))
    assert [piece["body"] for piece in pieces] == [b"one", b"two"]
    names = {name for name, _ in start["headers"]}
    assert b"content-security-policy" in names
    assert not names & {b"etag", b"content-encoding"}


async def _sent(app: Finished) -> list[Message]:
    """All that the app sends for a GET."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)
    return sent
