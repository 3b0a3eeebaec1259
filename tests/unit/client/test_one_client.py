"""The synchronous and the asynchronous client are one: what one has, the other has, with the same arguments."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from tests.unit.client.served import TRANSPORTS, store_of
from tokimori.client.asynchronous import AsyncClient
from tokimori.client.client import Client, open_async
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput
from tokimori.service.operation import Part
from tokimori.service.service import PARTS

BY_HAND = {"close", "within", "acting_as", "copy_to"}
"""What is no operation of a part: one ends the thread, the others give another client."""


def public(thing: object) -> dict[str, object]:
    """All that does not begin with an underscore, by name."""
    return {name: getattr(thing, name) for name in dir(thing) if not name.startswith("_")}


def differences(behind: object, facade: object) -> Iterator[str]:
    """How what synchronous programs see differs from what is behind it."""
    ours, theirs = public(behind), public(facade)
    for name in (ours.keys() ^ theirs.keys()) - {"in_zone", "within_bounds"}:
        yield f"{name}: only {'asynchronous' if name in ours else 'synchronous'}"
    for name in ours.keys() & theirs.keys():
        one, other = ours[name], theirs[name]
        if isinstance(one, Part):
            yield from (f"{name}.{each}" for each in differences(one, other))
        elif not callable(one) or not callable(other):
            if one != other:
                yield f"{name}: {one!r} and {other!r}"
        elif name not in BY_HAND:
            yield from (f"{name}: {each}" for each in unlike(one, other))


def unlike(one: Callable[..., object], other: Callable[..., object]) -> Iterator[str]:
    """How two methods of a name differ."""
    if inspect.signature(one) != inspect.signature(other):
        yield f"{inspect.signature(one)} and {inspect.signature(other)}"
    if inspect.iscoroutinefunction(other):
        yield "the synchronous one does not wait"


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """One on a store of its own, or over HTTP on the store of a node."""
    with store_of(request.param) as url, open_client(url, time_zone="Asia/Tokyo") as opened:
        yield opened


def behind() -> AsyncClient:
    """The same for asynchronous programs."""
    return open_async("memory:", time_zone="Asia/Tokyo")


def test_both_have_the_same_methods_and_parts(client: Client) -> None:
    """The same names, arguments, defaults and annotations, parts included; each that waits is made from the other."""
    assert list(differences(behind(), client)) == []
    assert {*(kind.noun for kind in PARTS), "mutex", "time_zone", "acting_as"} <= public(client).keys()


def test_both_are_opened_with_the_same_arguments() -> None:
    """The same URL, zone, author and store of semaphores."""
    assert inspect.signature(open_client).parameters == inspect.signature(open_async).parameters


def test_many_requests_are_sent_in_parts(client: Client) -> None:
    """More than a door reads at once get their runs all the same, in order; what is wrong is found before."""
    client.jobs.add("j", noop=True)
    payload = "x" * 300_000
    runs = client.jobs.trigger_many("j", [{"key": str(n), "payload": payload} for n in range(5)])
    assert [run.origin for run in runs] == [f"m:{n}" for n in range(5)]
    assert [run.id for run in client.jobs.trigger_many("j", [{"key": "0"}, {"key": "4"}])] == [runs[0].id, runs[4].id]
    with pytest.raises(InvalidInput, match="number 1 says 'force'"):
        client.jobs.trigger_many("j", [{}, {"force": True}])  # type: ignore[typeddict-unknown-key]


@pytest.mark.filterwarnings("ignore:a blocking call")
async def test_both_act_for_somebody_else(client: Client, request: pytest.FixtureRequest) -> None:
    """A view with another author records it, parts included; the client itself goes on as before."""
    nobody = {"store": None, "http": "http"}[request.node.callspec.params["client"]]  # a door names itself
    client.jobs.add("j", noop=True)
    ann = client.acting_as("ann")
    assert (ann.jobs.pause("j").by, ann.queues.pause("mail").by) == ("ann", "ann")
    assert (client.queues.pause("web").by, ann.jobs.list()) == (nobody, client.jobs.list())
    async with behind() as other:
        await other.jobs.add("j", noop=True)
        bob = other.acting_as("bob")
        assert ((await bob.jobs.pause("j")).by, (await bob.queues.pause("mail")).by) == ("bob", "bob")
        assert (await other.queues.pause("web")).by is None
