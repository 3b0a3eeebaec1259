"""What answers in the door's place while something holds the loop."""

import socket

import pytest
from msgspec import json

from tokimori.api import acceptor
from tokimori.api.acceptor import StandIn, answer


def asked(request: bytes) -> bytes:
    """What it answers to these bytes."""
    client, server = socket.socketpair()
    with client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        with server:
            answer(server, 7.4)
        return client.recv(65_536)


@pytest.mark.parametrize("request_", [b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n", b"", b"x" * 100_000])
def test_whatever_is_asked_is_refused_with_the_cause(request_: bytes) -> None:
    """It is told in a whole answer, after which the connection is closed, and which says for how long."""
    head, _, body = asked(request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Connection: close" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.decode(body) == {"status": "the node's loop has been held for 7 s: the log says by what"}


def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for an answer, too: however slowly he sends, he has a moment in all."""
    monkeypatch.setattr(acceptor, "_PATIENCE", 0.01)
    client, server = socket.socketpair()
    with client, server, pytest.raises(TimeoutError):
        answer(server, 7.4)


def test_those_who_say_nothing_keep_nobody_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe comes behind them: connections that a browser or a balancer opens ahead do not hide what is wrong."""
    monkeypatch.setattr(acceptor, "_PATIENCE", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setblocking(False)
        thread = StandIn([door])
        silent = [socket.create_connection(door.getsockname()) for _ in range(10)]
        with socket.create_connection(door.getsockname()) as probe:
            probe.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
            for _ in range(11):
                thread._answer_some()
            probe.settimeout(30)
            assert probe.recv(65_536).startswith(b"HTTP/1.1 503 ")
        for each in silent:
            each.close()
