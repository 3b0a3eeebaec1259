"""The synchronous and the asynchronous client are one: what one has, the other has, with the same arguments."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from tests.unit.client.served import TRANSPORTS, store_of
from tokimori.client.asynchronous import AsyncClient, open_async
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput

PARTS = (
    *("audit", "calendars", "channels", "claims", "events", "expectations", "orders", "queues", "secrets"),
    *("semaphores", "tasks", "tokens"),
)
BY_HAND = {"close", "trigger"}
"""What waits, and is no call of the same method: one ends the thread in which that would run, the other carries out
statements in the thread of its caller, to whom the connection belongs."""


def public(thing: object) -> dict[str, object]:
    """All that does not begin with an underscore, by name."""
    return {name: getattr(thing, name) for name in dir(thing) if not name.startswith("_")}


def differences(behind: object, facade: object) -> Iterator[str]:
    """How what synchronous programs see differs from what is behind it."""
    ours, theirs = public(behind), public(facade)
    for name in ours.keys() ^ theirs.keys():
        yield f"{name}: only {'asynchronous' if name in ours else 'synchronous'}"
    for name in ours.keys() & theirs.keys():
        one, other = ours[name], theirs[name]
        if name in PARTS:
            yield from (f"{name}.{each}" for each in differences(one, other))
        elif not callable(one) or not callable(other):
            if one != other:
                yield f"{name}: {one!r} and {other!r}"
        else:
            yield from (f"{name}: {each}" for each in unlike(name, one, other))


def unlike(name: str, one: Callable[..., object], other: Callable[..., object]) -> Iterator[str]:
    """How two methods of this name differ."""
    if inspect.signature(one) != inspect.signature(other):
        yield f"{inspect.signature(one)} and {inspect.signature(other)}"
    if inspect.iscoroutinefunction(other):
        yield "the synchronous one does not wait"
    made, behind = inspect.unwrap(other), inspect.unwrap(one)
    made = getattr(made, "__func__", made)
    if inspect.iscoroutinefunction(one) and name not in BY_HAND and made is not getattr(behind, "__func__", behind):
        yield "the synchronous one is not made from the asynchronous one"


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
    assert {*PARTS, "add", "mutex", "time_zone", "acting_as"} <= public(client).keys()


def test_what_one_side_lacks_is_found(client: Client) -> None:
    """A method that only one has, other arguments and a twin written by hand are each a difference."""

    class More(AsyncClient):
        async def more(self) -> None:
            """What the other side lacks."""

        async def get(self, job_id: str, at: int = 0) -> object:  # type: ignore[override]
            """Another argument."""

    class Twin(Client):
        def get(self, job_id: str) -> object:  # type: ignore[override]
            """Written by hand."""

        queues = property(lambda self: self.calendars)

    assert any("more: only async" in each for each in differences(behind_as(More), client))
    assert any("get: (job_id: str, at: int = 0)" in each for each in differences(behind_as(More), client))
    twin = Twin.__new__(Twin)
    twin.__dict__.update({name: value for name, value in vars(client).items() if name != "queues"})
    found = list(differences(behind(), twin))
    assert any("get: the synchronous one is not made" in each for each in found)
    assert any(each.startswith("queues.pause: only asynchronous") for each in found)


def behind_as(kind: type[AsyncClient]) -> AsyncClient:
    """An asynchronous client of that kind."""
    other = kind.__new__(kind)
    other.__dict__.update(vars(behind()))
    return other


def test_both_are_opened_with_the_same_arguments() -> None:
    """The same URL, zone, author and store of semaphores."""
    assert inspect.signature(open_client).parameters == inspect.signature(open_async).parameters


def test_many_requests_are_sent_in_parts(client: Client) -> None:
    """More than a door reads at once get their runs all the same, in order; what is wrong is found before."""
    client.add("j", noop=True)
    payload = "x" * 300_000
    runs = client.trigger_many("j", [{"key": str(n), "payload": payload} for n in range(5)])
    assert [run.origin for run in runs] == [f"m:{n}" for n in range(5)]
    assert [run.id for run in client.trigger_many("j", [{"key": "0"}, {"key": "4"}])] == [runs[0].id, runs[4].id]
    with pytest.raises(InvalidInput, match="number 1 says 'force'"):
        client.trigger_many("j", [{}, {"force": True}])  # type: ignore[typeddict-unknown-key]


async def test_both_act_for_somebody_else(client: Client, request: pytest.FixtureRequest) -> None:
    """A view with another author records it, parts included; the client itself goes on as before."""
    nobody = {"store": None, "http": "http"}[request.node.callspec.params["client"]]  # a door names itself
    client.add("j", noop=True)
    ann = client.acting_as("ann")
    assert (ann.pause("j").by, ann.queues.pause("mail").by) == ("ann", "ann")
    assert (client.queues.pause("web").by, ann.list()) == (nobody, client.list())
    async with behind() as other:
        await other.add("j", noop=True)
        bob = other.acting_as("bob")
        assert ((await bob.pause("j")).by, (await bob.queues.pause("mail")).by) == ("bob", "bob")
        assert (await other.queues.pause("web")).by is None
