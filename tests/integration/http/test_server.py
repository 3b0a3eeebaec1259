import asyncio
import contextlib
import logging
import selectors
import signal
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tokimori.api.server import HttpDoor, listening_sockets
from tokimori.errors import InvalidInput, Refused, TokimoriError


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers at once; to `/slow` after a while."""
    if Request(scope).url.path == "/slow":
        await asyncio.sleep(0.3)
    await PlainTextResponse("hello")(scope, receive, send)


@contextlib.asynccontextmanager
async def opened(
    interface: str = "127.0.0.1", port: int = 0, *, port_fixed: bool = False, insecure: bool = False
) -> AsyncIterator[HttpDoor]:
    door = HttpDoor(hello, interface=interface, port=port, port_fixed=port_fixed, insecure=insecure)
    await door.start()
    try:
        yield door
    finally:
        await door.stop()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on, followed by free ones as far as anybody can know."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


async def ask(port: int, path: str = "/") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_answers_until_stopped() -> None:
    """The door answers from start to stop, and then nobody listens any more."""
    async with opened() as door:
        assert (await ask(door.port)).endswith(b"hello")
        assert door.url == f"http://127.0.0.1:{door.port}/"
        port = door.port
    with pytest.raises(ConnectionRefusedError):
        await ask(port)


async def test_stop_answers_what_was_asked() -> None:
    """A request that is being worked on when the door closes gets its answer."""
    async with opened() as door:
        asked = asyncio.create_task(ask(door.port, "/slow"))
        await asyncio.sleep(0.1)
    assert (await asked).endswith(b"hello")


async def test_a_taken_port(taken: int) -> None:
    """Where the port is taken the door takes a later one, and says which."""
    async with opened(port=taken) as door, opened(port=taken) as other:
        assert taken < door.port < other.port <= taken + 100


def test_a_taken_fixed_port(taken: int) -> None:
    """Where the port was asked for by name and is taken, the error names it."""
    with pytest.raises(Refused, match=str(taken)) as caught:
        listening_sockets("127.0.0.1", taken, port_fixed=True)
    assert (caught.value.field, caught.value.value) == ("http.port", taken)


def test_no_port_beyond_the_last() -> None:
    """The search for a free port ends at the last one that there is."""
    with contextlib.ExitStack() as stack:
        for each in listening_sockets("127.0.0.1", 65_535, port_fixed=False):
            stack.enter_context(each)
        with pytest.raises(Refused, match="65535"):
            listening_sockets("127.0.0.1", 65_535, port_fixed=False)


@pytest.mark.parametrize("interface", ["192.0.2.1", "no.such.host.invalid", "a" * 300, "no host"])
def test_a_foreign_interface(interface: str) -> None:
    """An address that this machine does not have, or no address at all, is refused by name."""
    with pytest.raises(TokimoriError, match=r"http") as caught:
        listening_sockets(interface, 0, port_fixed=False)
    assert isinstance(caught.value, Refused | InvalidInput)
    assert (caught.value.field, caught.value.value) == ("http.interface", interface)


async def test_localhost_is_all_of_loopback() -> None:
    """Under `localhost` the door listens on every loopback address that this machine has, at one port."""
    async with opened("localhost") as door:
        assert (await ask(door.port)).endswith(b"hello")
        assert door.url == f"http://localhost:{door.port}/"


async def test_signal_handlers_stay() -> None:
    """The door leaves signals to the node."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with opened() as door:
        await ask(door.port)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_an_idle_door_wakes_nobody() -> None:
    """While nobody asks, the loop sleeps: an idle node costs nothing."""
    loop = asyncio.get_running_loop()
    selector: selectors.BaseSelector = loop._selector  # type: ignore[attr-defined]
    select, wakes = selector.select, 0

    def counted(timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        nonlocal wakes
        wakes += 1
        return select(timeout)

    async with opened():
        await asyncio.sleep(0.1)
        selector.select = counted  # type: ignore[method-assign]
        await asyncio.sleep(1)
        del selector.select
    assert wakes <= 3


@pytest.mark.parametrize(("interface", "warnings"), [("127.0.0.1", 0), ("0.0.0.0", 1)])  # noqa: S104
async def test_open_to_others_is_warned_of(interface: str, warnings: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever opens the door to other machines, and has said so, is told who can learn the secret."""
    with caplog.at_level(logging.WARNING):
        async with opened(interface, insecure=True) as door:
            assert door.url == f"http://127.0.0.1:{door.port}/"
    assert ["without TLS" in record.message for record in caplog.records] == [True] * warnings


@pytest.mark.parametrize("interface", ["0.0.0.0", "::"])  # noqa: S104
async def test_other_machines_are_let_near_only_on_purpose(interface: str) -> None:
    """Beyond the loopback, without TLS, the door stays shut; the error says what to write, and nobody listens."""
    if interface == "::" and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Refused, match="--insecure") as caught:
        async with opened(interface, port, port_fixed=True):
            pass
    assert (caught.value.field, caught.value.value) == ("http.interface", interface)
    assert caught.value.allowed is not None and "127.0.0.1" in caught.value.allowed
    with pytest.raises(ConnectionRefusedError):
        await ask(port)


def test_an_ipv6_address_takes_no_ipv4() -> None:
    """Whoever lets a node listen on every IPv6 address has not opened the IPv4 ones: their `Host` is another rule."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with contextlib.ExitStack() as stack:
        for each in listening_sockets("::", 0, port_fixed=False):
            stack.enter_context(each)
            assert each.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
