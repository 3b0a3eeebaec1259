"""Programs that open the store themselves are in the audit log."""

import os
import pwd

import pytest

from tests.unit.client.served import TRANSPORTS, store_of
from tests.unit.service.world import World
from tokimori.client.asynchronous import AsyncClient, client_on
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.client.opening import Stores, this_program
from tokimori.client.recording import MOST, who
from tokimori.errors import NotFound, StoreUnavailable
from tokimori.service.views.access import AuditEntry

USER = pwd.getpwuid(os.geteuid()).pw_name


def log_of(client: Client) -> list[AuditEntry]:
    """The entries, the oldest first."""
    return [*client.audit.list()][::-1]


def client_of(world: World, author: str | None = None) -> AsyncClient:
    """A program on the store of this world."""
    return client_on(Stores(world.store), world.clock, os.urandom, program=this_program({}), author=author)


def test_what_a_program_changes_is_recorded() -> None:
    """By which OS user, with how it was and is, parts included; what was not changed or only asked for is not."""
    with open_client("memory:") as client:
        client.jobs.add("j", noop=True, name="old")
        for name in ("new", "new"):
            client.jobs.update("j", name=name)
        client.queues.pause("mail", "repairs")
        client.calendars.add("cal", dates=["12-25"])
        client.jobs.trigger("j")
        client.jobs.trigger_many("j", [{"key": "a"}])
        client.jobs.pause("j")
        client.jobs.delete_all("all")
        with pytest.raises(NotFound):
            client.jobs.delete("j")
        found = log_of(client)
    assert [(each.what, each.of) for each in found] == [
        ("jobs.add", "job j"),
        ("jobs.update", "job j"),
        ("queues.pause", "queue mail"),
        ("calendars.add", "calendar cal"),
        ("jobs.pause", "job j"),
        ("jobs.delete_some", "job j"),
    ]
    assert {each.who for each in found} == {USER}
    assert (found[1].before["definition"]["name"], found[1].after["definition"]["name"]) == ("old", "new")
    assert (found[4].before["state"], found[4].after["state"]) == ("enabled", "paused")
    assert found[5].before["definition"]["name"] == "new"


def test_a_change_has_one_entry() -> None:
    """What it brings about in its turn has none: other jobs that are deleted with one, and those of a calendar."""
    with open_client("memory:") as client:
        client.calendars.add("cal", dates=["12-25"])
        client.jobs.add("a", noop=True, schedule="@daily", calendars=["cal"])
        client.jobs.add("b", noop=True, parents=[{"job": "a"}])
        client.calendars.update("cal", dates=["12-26"])
        client.jobs.delete("a", cascade=True, now=True)
        assert [each.what for each in log_of(client)] == [
            "calendars.add",
            "jobs.add",
            "jobs.add",
            "calendars.update",
            "jobs.delete",
        ]


def test_a_program_may_say_in_whose_name_it_acts() -> None:
    """The log has both: what it says, and as which user it runs."""
    with open_client("memory:", author="shop") as client:
        client.jobs.add("j", noop=True)
        client.acting_as("ann").jobs.pause("j")
        client.acting_as("ann").queues.pause("mail")
        client.acting_as("ann").nodes.drain()
        client.nodes.resume()
        ann, shop = f"ann ({USER})", f"shop ({USER})"
        assert [each.who for each in log_of(client)] == [shop, *[ann] * 3, shop]
    assert (who(None), who(USER)) == (USER, USER)


async def test_of_too_many_changes_only_their_number_is_recorded() -> None:
    """A hundred after a rest, then one in a second; the number of all others is told with the next, or at the end."""
    world = World()
    async with client_of(world) as client:
        for number in range(MOST.limit + 5):
            await client.jobs.add(f"j{number}", noop=True)
        assert len(await client.audit.list()) == MOST.limit
        assert len(await client.jobs.list()) == MOST.limit + 5
        world.pass_seconds(1)
        await client.acting_as("ann").jobs.pause("j1")
        paused, told = sorted(await client.audit.list(limit=2), key=lambda each: each.what)
        assert (told.what, told.of, told.after) == ("left_out", "5 changes", {"jobs.add": 5})
        assert (paused.what, paused.of) == ("jobs.pause", "job j1")
        await client.jobs.resume("j1")
        await client.queues.pause("mail")
    unmuted_events = [each.entry.after for each in await world.service.audit.list() if each.entry.what == "left_out"]
    assert sorted(unmuted_events, key=str) == [{"jobs.add": 5}, {"jobs.resume": 1, "queues.pause": 1}]


async def test_a_store_that_is_away_for_a_moment_fails_no_change() -> None:
    """How something was or is may be left out of the log; the change itself is what counts."""
    world = World()
    async with client_of(world) as client:
        await client.queues.pause("mail")
        world.pass_seconds(1)
        read = world.store.list_pauses
        answers = iter([True, False, True, False])

        async def fickle() -> object:
            if next(answers, True):
                return await read()
            raise StoreUnavailable("gone")

        world.store.list_pauses = fickle  # type: ignore[method-assign, assignment]
        await client.queues.pause("web")
        (entry, *_) = await client.audit.list()
        assert (entry.of, entry.before, entry.after) == ("queue web", None, {"left_out": "gone"})


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_change_over_http_is_recorded_by_the_door_alone(transport: str) -> None:
    """Each change has one entry, however the program reaches the store."""
    with store_of(transport) as url, open_client(url) as client:
        client.jobs.add("j", noop=True)
        assert [(each.what, each.of) for each in log_of(client)] == [("jobs.add", "job j")]
