"""What a request means, and what became of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import ON_DEMAND, World
from tokimori.clock import SECOND, Moment
from tokimori.errors import Conflict, Duplicate, InvalidInput, Refused
from tokimori.model.job_fields import LONGEST
from tokimori.model.transitions import RunState
from tokimori.service.definitions.requests import Became
from tokimori.service.service import service_for


async def ask(world: World, **fields: Any) -> tuple[str, Became]:
    """The id of the run that answers, and what became of the request."""
    asked = await world.service.jobs.request("j", **fields)
    return asked.run.id, asked.became


async def test_a_plain_key_is_one_request(world: World) -> None:
    """The first one makes the run, the others know it."""
    await world.add(ON_DEMAND, "j")
    run_id, first = await ask(world, key="k")
    assert (first, await ask(world, key="k", payload="other")) == (Became.MADE, (run_id, Became.KNOWN))


async def test_debounce(world: World) -> None:
    """Each request puts the run off, until nothing comes for so many seconds."""
    await world.add(ON_DEMAND, "j")
    run_id, first = await ask(world, key="k", debounce=5, payload="1")
    assert first is Became.MADE
    world.pass_seconds(4)
    assert await ask(world, key="k", debounce=5, payload="2") == (run_id, Became.DEBOUNCED)
    (run,) = await world.service.runs.list()
    assert (run.due, run.payload, run.state) == (seconds(9), "2", RunState.WAITING)


@pytest.mark.parametrize(
    ("said", "delay"),
    [
        ({"at": "10m"}, 600),
        ({"at": timedelta(minutes=10)}, 600),
        ({"key": "k", "debounce": 2.5}, 2.5),
        ({"at": "2031-01-01T00:00:00Z"}, None),
        ({"at": datetime(2031, 1, 1, tzinfo=UTC)}, None),
        ({"at": seconds(60)}, None),
        ({"key": "k", "replace": True, "at": "10m"}, None),
        ({}, None),
    ],
)
async def test_a_request_that_says_a_delay_keeps_it(world: World, said: dict[str, Any], delay: float | None) -> None:
    """So that a clock that was ahead does not put it off for long; one for a moment, or of a shared run, has none."""
    await world.add(ON_DEMAND, "j")
    await ask(world, **said)
    (run,) = await world.service.runs.list()
    assert run.details.delay == (None if delay is None else delay * SECOND)


async def test_throttle(world: World) -> None:
    """At most one run in so many seconds, whatever became of it."""
    await world.add(ON_DEMAND, "j")
    run_id, first = await ask(world, key="k", throttle=5)
    assert first is Became.MADE
    world.pass_seconds(4.5)
    assert await ask(world, key="k", throttle=5) == (run_id, Became.THROTTLED)
    world.pass_seconds(0.5)
    other, second = await ask(world, key="k", throttle=5)
    assert (other != run_id, second) == (True, Became.MADE)


async def test_replace(world: World) -> None:
    """What has not started gets the new moment, payload and priority; what has is left alone."""
    await world.add(ON_DEMAND, "j")
    run_id, _ = await ask(world, key="k", replace=True, at=seconds(60))
    again = await ask(world, key="k", replace=True, payload="p", priority=9, at=Moment(NEW_YEAR + SECOND))
    assert again == (run_id, Became.REPLACED)
    (run,) = await world.service.runs.list()
    assert (run.due, run.payload, run.priority, run.rank) == (seconds(1), "p", 9, seconds(1 - 9 * 60))


async def test_a_lost_reply_changes_nothing_twice(world: World) -> None:
    """The request is asked again under the same id."""
    await world.add(ON_DEMAND, "j")
    world.store.lose_replies = 1
    run_id, first = await ask(world, key="k", debounce=5)
    world.store.lose_replies = 1
    assert (first, await ask(world, key="k", debounce=6)) == (Became.MADE, (run_id, Became.DEBOUNCED))
    assert len(await world.service.runs.list()) == 1


async def test_force(world: World) -> None:
    """A paused or parked job takes nothing else."""
    await world.add(ON_DEMAND, "j")
    await world.service.jobs.pause("j")
    with pytest.raises(Refused) as refused:
        await ask(world)
    assert "force" in (refused.value.allowed or "")
    run_id, became = await ask(world, force=True)
    assert became is Became.MADE
    assert [claimed.run.id for claimed in await world.begin(10)] == [run_id]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"debounce": 1}, "key"),
        ({"throttle": 1}, "key"),
        ({"replace": True}, "key"),
        ({"key": "k", "debounce": 0}, "debounce"),
        ({"key": "k", "debounce": float("nan")}, "debounce"),
        ({"key": "k", "debounce": LONGEST * 2}, "debounce"),
        ({"key": "k", "throttle": -1}, "throttle"),
        ({"key": "k", "throttle": float("inf")}, "throttle"),
        ({"key": "k", "throttle": 1, "debounce": 1}, "throttle"),
        ({"key": "k", "replace": True, "debounce": 1}, "replace"),
        ({"key": "k", "at": NEW_YEAR, "debounce": 1}, "at"),
        ({"key": ""}, "key"),
        ({"key": "k" * 256}, "key"),
        ({"key": "a\nb", "replace": True}, "key"),
        ({"priority": 101}, "priority"),
        ({"at": "noon"}, "at"),
        ({"parent": "me"}, "parent"),
        ({"payload": "a\0"}, "payload"),
    ],
)
async def test_what_can_not_be_asked(world: World, fields: dict[str, object], field: str) -> None:
    """It is refused by the name of the field, with what is allowed, and there is no run."""
    await world.add(ON_DEMAND, "j")
    with pytest.raises(InvalidInput) as refused:
        await ask(world, **fields)
    assert refused.value.field == field
    assert refused.value.allowed
    assert (await world.service.runs.list()).runs == []


async def test_a_run_goes_on_in_the_trace_of_who_asks(world: World) -> None:
    """Where the request says, else where the program stands; who repeats a run says it anew."""
    here, there = f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'c' * 32}-{'d' * 16}-00"
    await world.add(ON_DEMAND, "j")
    assert (await world.service.jobs.trigger("j")).details.traceparent is None
    world.service = service_for(world.service._shared, replace(world.service._caller, traceparent=lambda: here))
    assert (await world.service.jobs.trigger("j")).details.traceparent == here
    run = await world.service.jobs.trigger("j", traceparent=there)
    assert (await world.store.get_run(run.id)).details.traceparent == there
    many = await world.service.jobs.trigger_many("j", [{}, {"traceparent": there}])
    assert [each.details.traceparent for each in many] == [here, there]
    await world.service.runs.cancel(run.id)
    assert (await world.service.runs.retry(run.id)).run.details.traceparent == here
    with pytest.raises(InvalidInput, match="traceparent: 'what' is none"):
        await world.service.jobs.trigger("j", traceparent="what")


async def test_unique_requests_share_a_payload_or_a_key(world: World) -> None:
    """Equal JSON is one key, whatever its order; a key of its own goes first, and says what became of the request."""
    await world.add(ON_DEMAND, "j")
    run_id, first = await ask(world, unique="until_end", payload={"a": 1, "b": [2]})
    assert first is Became.MADE
    assert await ask(world, unique="until_start", payload='{"b":[2], "a":1}') == (run_id, Became.KNOWN)
    assert (await ask(world, unique="until_end"))[1] is Became.MADE
    assert (await ask(world, unique="until_end", payload="no JSON"))[1] is Became.MADE
    other, _ = await ask(world, unique="until_end", key="k", payload={"a": 1, "b": [2]})
    assert other != run_id
    asked = {"unique": "until_end", "key": "k", "on_duplicate": "replace", "payload": "new"}
    assert await ask(world, **asked) == (other, Became.REPLACED)
    assert (await world.service.runs.get(other)).run.payload == "new"
    with pytest.raises(Duplicate, match=other) as refused:
        await ask(world, unique="until_end", key="k", on_duplicate="refuse")
    assert (refused.value.value, refused.value.status, refused.value.exit_code) == (other, 409, 4)


async def test_a_refused_duplicate_whose_reply_was_lost_is_its_own_run(world: World) -> None:
    """Asked again it finds what it made, and is no duplicate of itself."""
    await world.add(ON_DEMAND, "j")
    world.store.lose_replies = 1
    assert (await ask(world, unique="until_end", on_duplicate="refuse"))[1] is Became.MADE


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"unique": "forever"}, "unique"),
        ({"unique": "until_end", "key": "k", "throttle": 5}, "unique"),
        ({"on_duplicate": "refuse"}, "on_duplicate"),
        ({"unique": "until_end", "in_place_of": [None, None]}, "in_place_of"),
        ({"unique": "until_end", "on_duplicate": "replace", "in_place_of": ["x", None]}, "in_place_of"),
        ({"unique": "until_end", "on_duplicate": "replace", "in_place_of": [None, "p"]}, "in_place_of"),
        ({"expires": 5}, "expires"),
        ({"expires": "0s"}, "expires"),
        ({"expires": "1h", "at": "2h"}, "expires"),
        ({"expires": "2020-01-01T00:00:00Z"}, "expires"),
    ],
)
async def test_wrong_terms_of_uniqueness(world: World, said: dict[str, Any], field: str) -> None:
    """The field is named, and nothing is made."""
    await world.add(ON_DEMAND, "j")
    with pytest.raises(InvalidInput) as refused:
        await ask(world, **said)
    assert refused.value.field == field
    assert list(await world.service.runs.list()) == []


async def test_a_replacement_that_was_overtaken_is_a_conflict(world: World) -> None:
    """The run has another payload than was read: nothing is changed."""
    await world.add(ON_DEMAND, "j")
    terms = {"unique": "until_end", "key": "k", "on_duplicate": "replace"}
    run_id, _ = await ask(world, **terms, payload="1", in_place_of=[None, None])
    await ask(world, **terms, payload="2", in_place_of=[run_id, "1"])
    with pytest.raises(Conflict):
        await ask(world, **terms, payload="3", in_place_of=[run_id, "1"])
    assert (await world.service.runs.get(run_id)).run.payload == "2"
