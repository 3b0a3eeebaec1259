"""Synchronous programs publish and subscribe, on a store and over HTTP."""

from collections.abc import Iterator

import pytest

from tests.unit.client.served import TRANSPORTS, store_of
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput, Refused


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """One on a store of its own, or over HTTP on the store of a node."""
    with store_of(request.param) as url, open_client(url) as opened:
        yield opened


def test_a_subscriber_goes_on_where_it_left(client: Client) -> None:
    """Whoever leaves the loop has done with all but the message at which he left."""
    for n in range(4):
        client.channels.publish("news", {"n": n})
    seen = []
    for message in client.channels.subscribe("news", name="ann"):
        seen.append(message.data["n"])
        if message.data["n"] == 2:
            break
    left = client.channels.read("news", name="ann").messages
    assert (seen, [message.data["n"] for message in left]) == ([0, 1, 2], [2, 3])
    assert client.channels.acknowledge("news", "ann", left[-1].number) == left[-1].number
    assert client.channels.read("news", name="ann").messages == []


def test_who_has_no_name_is_told_what_comes(client: Client) -> None:
    """And behind which number to go on."""
    old = client.channels.publish("news", "old")
    after = client.channels.read("news").after
    new = client.channels.publish("news", "new", key="n-1")
    assert after == old.number
    message = next(client.channels.subscribe("news", after=after))
    assert (message, message.key) == (new, "n-1")


def test_what_is_wrong_is_named(client: Client) -> None:
    """The same on a store and over HTTP."""
    with pytest.raises(InvalidInput, match="message: it is too large"):
        client.channels.publish("news", "x" * 70_000)
    with pytest.raises(InvalidInput, match="is no topic"):
        next(client.channels.subscribe("a/b"))
    client.jobs.add("j", noop=True)
    run = client.jobs.trigger("j")
    with pytest.raises(Refused, match="does not run"):
        client.runs.restart(run.id)
