import asyncio
from collections.abc import Sequence

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.unit.api.asgi import SECRET, Answer, Asker
from tests.unit.service.world import SetClock
from tokimori.api.guards import guarded, host_of, host_rule
from tokimori.api.queries import MOST_BODY

JSON = "application/json"


class Echo:
    """An application that answers with the body, and counts how often it was reached."""

    def __init__(self) -> None:
        self.reached = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        body = b""
        more = scope["method"] != "GET"
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await PlainTextResponse(body)(scope, receive, send)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def asker(echo: Echo) -> Asker:
    return Asker(guarded(echo, clock=SetClock(), interface="127.0.0.1", host_name="this.machine", secret=SECRET))


def ask(asker: Asker, *arguments: str, chunks: Sequence[bytes | None] = (b"",), **headers: str) -> Answer:
    pairs = [(name.replace("_", "-"), value) for name, value in ({"host": "localhost:8000"} | headers).items()]
    return asyncio.run(asker.ask(*arguments, headers=pairs, chunks=chunks))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "[::1]"]
)
def test_loopback_hosts_pass(asker: Asker, host: str) -> None:
    """Under every name of loopback, at whatever port a tunnel gives it, the door answers."""
    assert ask(asker, "GET", "/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil@localhost",
        "localhost:x",
        "localhost/",
        "10.0.0.1",
        "",
        "[::1",
        " ",
    ],
)
def test_other_hosts_are_refused(asker: Asker, echo: Echo, host: str) -> None:
    """Under a name that somebody has pointed here the door does nothing, reads included."""
    answer = ask(asker, "GET", "/", host=host)
    assert (answer.status, answer.error["code"], answer.error["value"]) == (403, "host_not_allowed", host)
    assert echo.reached == 0


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
def test_exactly_one_host(asker: Asker, echo: Echo, hosts: list[str]) -> None:
    """A request without a host, or with two, is refused."""
    answer = asyncio.run(asker.ask("GET", "/", headers=[("host", host) for host in hosts]))
    assert (answer.status, echo.reached) == (403, 0)


@pytest.mark.parametrize(
    ("interface", "allowed", "refused"),
    [
        ("127.0.0.1", ["localhost", "127.0.0.1", "::1"], ["10.0.0.1", "this.machine", "evil"]),
        ("10.0.0.1", ["localhost", "10.0.0.1"], ["10.0.0.2", "this.machine", "evil"]),
        ("This.Machine", ["localhost", "this.machine"], ["10.0.0.2", "evil"]),
        ("0.0.0.0", ["localhost", "10.0.0.1", "fe80::1", "this.machine"], ["evil", "10.0.0.1.evil", "10.0.0", ""]),  # noqa: S104
        ("::", ["localhost", "10.0.0.1", "this.machine"], ["evil"]),
    ],
)
def test_host_rule(interface: str, allowed: list[str], refused: list[str]) -> None:
    """The interface's own name passes; a door on all interfaces takes any address, but no foreign name."""
    is_ours = host_rule(interface, "This.Machine")
    assert [name for name in allowed + refused if is_ours(name)] == allowed


def test_the_name_of_a_proxy_is_ours() -> None:
    """That of the public address, and no other one."""
    is_ours = host_rule("127.0.0.1", "this.machine", "https://Tokimori.example:8443/below")
    names = ["tokimori.example", "localhost", "this.machine", "evil.example"]
    assert [name for name in names if is_ours(name)] == ["tokimori.example", "localhost"]


def test_host_of() -> None:
    """Ports and brackets are taken off, case does not count."""
    assert host_of("LocalHost:80") == "localhost"
    assert host_of("[::1]:80") == "::1"
    assert host_of("a:b:c") is None


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:9000",
        "http://localhost",
        "null",
        "",
        "localhost:8000",
        "http://[",
        "file://",
    ],
)
def test_pages_of_others_are_refused(asker: Asker, echo: Echo, origin: str, method: str) -> None:
    """What the page of another site, or of another port, sends through somebody's browser is refused."""
    answer = ask(asker, method, "/", origin=origin, content_type=JSON)
    assert (answer.status, answer.error["code"]) == (403, "origin_not_allowed")
    assert echo.reached == 0


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("HTTP://LOCALHOST:8000", "localhost:8000"),
        ("http://localhost", "localhost:80"),
        ("https://localhost:443", "localhost"),
    ],
)
def test_own_pages_pass(asker: Asker, origin: str, host: str) -> None:
    """The door's own page may ask for everything."""
    assert ask(asker, "POST", "/", origin=origin, host=host, content_type=JSON).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "text/json",
        "application/json5",
        "text/x+json",
    ],
)
def test_writes_must_be_json(asker: Asker, echo: Echo, method: str, kind: str) -> None:
    """A write that a form could have sent is refused, with a body or without."""
    for body in (b"", b"{}"):
        answer = ask(asker, method, "/", content_type=kind, chunks=[body])
        assert (answer.status, answer.error["allowed"]) == (415, "application/json")
    assert ask(asker, method, "/").status == 415
    assert echo.reached == 0


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"]
)
def test_json_passes(asker: Asker, kind: str) -> None:
    """JSON under any of its names passes, and arrives whole."""
    assert ask(asker, "POST", "/", content_type=kind, chunks=[b'{"a"', b":1}"]).body == b'{"a":1}'


def test_delete_needs_no_body(asker: Asker) -> None:
    """A DELETE needs no content type, as no form can send one, unless it has a body."""
    assert ask(asker, "DELETE", "/").status == 200
    assert ask(asker, "DELETE", "/", chunks=[b"x"]).status == 415


def test_large_bodies_are_refused(asker: Asker, echo: Echo) -> None:
    """A body over 1 MiB is refused by its stated length before it is read, and by its real one."""
    stated = ask(asker, "POST", "/", content_length=str(MOST_BODY + 1), chunks=[], content_type=JSON)
    real = ask(asker, "POST", "/", chunks=[b"x" * (1 << 19)] * 3, content_type=JSON)
    assert (stated.status, real.status, echo.reached) == (413, 413, 0)
    assert real.headers["connection"] == "close"
    assert ask(asker, "POST", "/", chunks=[b"x" * MOST_BODY], content_type=JSON).status == 200


def test_half_a_request_is_none(asker: Asker, echo: Echo) -> None:
    """Where the client goes away before its body has come, nothing is done."""
    assert ask(asker, "POST", "/", chunks=[b"{}", None], content_type=JSON).status == 0
    assert echo.reached == 0


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_headers_of_every_response(asker: Asker, host: str) -> None:
    """Every response, refusals included, forbids scripts of others, frames and guessing, and says when it was made."""
    headers = ask(asker, "GET", "/", host=host).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["date"] == "Tue, 01 Jan 2030 00:00:00 GMT"
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in headers)
