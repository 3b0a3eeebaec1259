"""Calendars, pauses of queues and limits of semaphores that sets declare beside jobs."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.service.sets.test_sets import done, once_before_a_change
from tests.unit.service.world import World
from tokimori.clock import Moment
from tokimori.errors import Conflict, InvalidInput, StoreUnavailable
from tokimori.service.definitions.differences import FieldChange
from tokimori.service.documents import Documents
from tokimori.service.sets.resources import DECLARATIONS
from tokimori.service.sets.turns import TURN_LASTS
from tokimori.service.sets.work import Applied, changes_in

OFF = {"holidays": {"dates": ["12-25"]}}
NIGHTLY = {"command": "make report", "schedule": "0 3 * * *", "calendars": ["holidays"]}
PAUSED = {"mail": {"paused": True, "reason": "moving"}}
ALL: dict[str, Any] = {"calendars": OFF, "queues": PAUSED, "semaphores": {"printer": {"limit": 3}}}


async def applied(world: World, jobs: Any = None, name: str = "prod", **how: Any) -> dict[str, dict[str, object]]:
    """What applying a set did, by kind, without what is empty."""
    return told(await world.service.sets.apply(name, jobs or {}, **how))


def told(found: Applied) -> dict[str, dict[str, object]]:
    return {word: happened for word, each in changes_in(found).items() if (happened := done(each))}


async def pauses(world: World) -> dict[str, str | None]:
    return {pause.queue: pause.reason for pause in await world.service.queues.pauses()}


async def owned(world: World) -> dict[str, str]:
    known = await Documents(world.store, DECLARATIONS, os.urandom).list()
    return {each.name: each.set for each in known}


async def test_what_jobs_need_is_there_before_them(world: World) -> None:
    """A job may name a calendar, and more than one unit, that the same files declare; applied again nothing changes."""
    job = {**NIGHTLY, "semaphores": ["printer:3"], "queue": "mail"}
    added = await applied(world, {"nightly": job}, **ALL)
    assert added == {
        "calendar": {"added": ("holidays",)},
        "semaphore": {"added": ("printer",)},
        "queue": {"added": ("mail",)},
        "job": {"added": ("nightly",)},
    }
    assert (await world.service.jobs.get("nightly")).days_off == '{"dates":["12-25"]}'
    assert await pauses(world) == {"mail": "moving"}
    assert (await world.service.semaphores.get("printer")).limit == 3
    calls = world.count("put_document")
    again = await applied(world, {"nightly": job}, **ALL)
    assert {word: list(what) for word, what in again.items()} == {word: ["unchanged"] for word in added}
    assert calls == []


async def test_changes_are_told_field_by_field_and_jobs_take_over_new_days(world: World) -> None:
    """A dry run says the same, and changes nothing."""
    await applied(world, {"nightly": NIGHTLY}, **ALL)
    changed: dict[str, Any] = {
        "calendars": {"holidays": {"dates": ["12-25", "12-26"]}},
        "queues": {"mail": {"paused": False}},
        "semaphores": {"printer": {"limit": 5}},
    }
    before = await world.service.sets.resources()
    dry = await applied(world, {"nightly": NIGHTLY}, **changed, dry_run=True)
    assert await world.service.sets.resources() == before
    assert await applied(world, {"nightly": NIGHTLY}, **changed) == dry
    assert dry["calendar"]["changed"] == {
        "holidays": (FieldChange(field="dates", old=["12-25"], new=["12-25", "12-26"]),)
    }
    assert dry["semaphore"]["changed"] == {"printer": (FieldChange(field="limit", old=3, new=5),)}
    assert (await world.service.jobs.get("nightly")).days_off == '{"dates":["12-25","12-26"]}'
    assert await pauses(world) == {}


async def test_only_what_the_set_declared_is_pruned_and_in_reverse(world: World) -> None:
    """A calendar goes after the job that used it, a queue is resumed, and what is of others stays."""
    await applied(world, {"nightly": NIGHTLY}, **ALL)
    await applied(world, name="staging", calendars={"theirs": {"weekdays": ["sat"]}})
    await world.service.calendars.add("by-hand", weekdays=["sun"])
    assert (await applied(world))["calendar"] == {"kept": ("holidays",)}
    assert await applied(world, prune=True) == {
        "calendar": {"removed": ("holidays",)},
        "semaphore": {"removed": ("printer",)},
        "queue": {"removed": ("mail",)},
        "job": {"removed": ("nightly",)},
    }
    assert [each.name for each in await world.service.calendars.list()] == ["by-hand", "theirs"]
    assert (await pauses(world), await world.service.semaphores.list()) == ({}, [])
    assert await owned(world) == {"theirs": "staging"}


@pytest.mark.parametrize("part", ALL)
async def test_what_is_of_another_set_is_left_alone(world: World, part: str) -> None:
    """Also where both say the same; taken over it is of this one, and the other set can't prune it any more."""
    await applied(world, name="staging", **{part: ALL[part]})
    with pytest.raises(Conflict, match="it is of the set staging"):
        await applied(world, **{part: ALL[part]})
    (taken,) = (await applied(world, **{part: ALL[part]}, take_over=True)).values()
    assert list(taken) == ["adopted"]
    assert await applied(world, name="staging", prune=True) == {}
    assert set((await owned(world)).values()) == {"prod"}


async def by_hand_calendar(world: World) -> None:
    await world.service.calendars.update("holidays", weekdays=["mon"])


async def by_hand_queue(world: World) -> None:
    await world.service.queues.resume("mail")


async def by_hand_semaphore(world: World) -> None:
    await world.service.semaphores.set("printer", 7)


BY_HAND = {"calendars": by_hand_calendar, "queues": by_hand_queue, "semaphores": by_hand_semaphore}


@pytest.mark.parametrize("part", BY_HAND)
async def test_a_change_by_hand_is_never_overwritten_in_silence(world: World, part: str) -> None:
    """Not even the end of a pause, which somebody has ordered; taken over it is as declared again."""
    said = {part: ALL[part]}
    await applied(world, **said)
    await BY_HAND[part](world)
    before = await world.service.sets.resources()
    with pytest.raises(Conflict, match="it was changed by hand since"):
        await applied(world, **said)
    assert await world.service.sets.resources() == before
    await applied(world, **said, take_over=True)
    assert list((await applied(world, **said)).values()) == [{"unchanged": tuple(ALL[part])}]


@pytest.mark.parametrize("part", ["calendars", "semaphores"])
async def test_what_was_changed_by_hand_is_not_pruned(world: World, part: str) -> None:
    """The set is told so, and may insist."""
    await applied(world, **{part: ALL[part]})
    await BY_HAND[part](world)
    with pytest.raises(Conflict, match="not declared any more, but was changed by hand"):
        await applied(world, prune=True)
    await applied(world, prune=True, take_over=True)
    assert await world.service.sets.resources() == await World().service.sets.resources()


async def test_what_is_gone_already_is_forgotten(world: World) -> None:
    """A queue that somebody has resumed is nothing to prune, nor to keep."""
    await applied(world, queues=PAUSED)
    await world.service.queues.resume("mail")
    assert await applied(world) == {}
    assert await owned(world) == {"mail": "prod"}
    assert await applied(world, prune=True) == {}
    assert await owned(world) == {}


async def test_what_was_made_by_hand_is_adopted_where_it_is_alike(world: World) -> None:
    """Where it differs it stays, and is told; a semaphore that nobody made has one unit, and may follow."""
    await world.service.calendars.add("holidays", dates=["12-25"])
    await world.service.queues.pause("mail", "moving")
    await world.service.semaphores.set("printer", 1)
    assert await applied(world, **ALL) == {
        "calendar": {"adopted": ("holidays",)},
        "queue": {"adopted": ("mail",)},
        "semaphore": {"added": ("printer",)},
    }
    await world.service.queues.pause("other", "an incident")
    with pytest.raises(Conflict, match="queue other: somebody has made it by hand, and it differs"):
        await applied(world, queues={"other": {"paused": True}})


async def test_a_pause_keeps_the_reason_with_which_it_began(world: World) -> None:
    """To tell another one the pause would have to end, and runs would start."""
    await applied(world, queues=PAUSED)
    other = {"mail": {"paused": True, "reason": "still moving"}}
    assert await applied(world, queues=other) == {"queue": {"unchanged": ("mail",)}}
    assert await pauses(world) == {"mail": "moving"}
    assert await applied(world, queues={"mail": {"paused": False}})
    assert await applied(world, queues=other)
    assert await pauses(world) == {"mail": "still moving"}


async def test_a_calendar_that_a_job_uses_is_not_pruned(world: World) -> None:
    """Whoever made the job; it is told before anything is changed."""
    await applied(world, calendars=OFF)
    await world.service.jobs.add("hers", noop=True, calendars=["holidays"])
    with pytest.raises(Conflict, match="calendar holidays: it is not declared any more, but the job hers uses it"):
        await applied(world, {"new": {"noop": True}}, prune=True)
    assert [job.id for job in await world.service.jobs.list()] == ["hers"]


@pytest.mark.parametrize("how", ["taken over", "edited"])
async def test_a_calendar_that_is_pruned_is_looked_at_again(world: World, how: str) -> None:
    """One that another set has got meanwhile stays, and one that somebody has edited."""
    await applied(world, {"nightly": {"noop": True}}, calendars=OFF)
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "taken over": lambda: applied(world, name="staging", calendars=OFF, take_over=True),
        "edited": lambda: world.service.calendars.update("holidays", dates=["12-26"]),
    }
    once_before_a_change(world, acts[how])
    with pytest.raises(Conflict, match=r"calendar holidays: somebody .*: apply the set again"):
        await applied(world, {"nightly": {"noop": True, "priority": 1}}, prune=True)
    assert [each.name for each in await world.service.calendars.list()] == ["holidays"]


async def test_units_that_are_held_outlive_their_semaphore(world: World) -> None:
    """It becomes a mutex, as one that nobody made is while somebody holds its unit."""
    await applied(world, semaphores={"printer": {"limit": 2}})
    await world.service.jobs.add("nightly", noop=True, semaphores=["printer"])
    await world.trigger("nightly")
    await world.begin(1)
    assert await applied(world, prune=True) == {"semaphore": {"removed": ("printer",)}}
    (left,) = await world.service.semaphores.list()
    assert (left.limit, left.used) == (1, 1)
    assert await owned(world) == {}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"calendars": {"holidays": {"dates": ["13-45"]}}}, "calendars.holidays.dates"),
        ({"calendars": {"holidays": {"date": ["12-25"]}}}, "calendars.holidays.date"),
        ({"calendars": {"a b": {}}}, "calendars.calendar"),
        ({"calendars": []}, "calendars"),
        ({"queues": {"mail": {}}}, "queues.mail.paused"),
        ({"queues": {"mail": {"paused": "yes"}}}, "queues.mail.paused"),
        ({"queues": {"mail": {"paused": False, "reason": "x"}}}, "queues.mail.reason"),
        ({"queues": {"mail": {"paused": True, "why": "x"}}}, "queues.mail.why"),
        ({"queues": {"a b": {"paused": True}}}, "queues.queue"),
        ({"semaphores": {"printer": {"limit": 0}}}, "semaphores.printer.limit"),
        ({"semaphores": {"printer": {"units": 2}}}, "semaphores.printer.units"),
        ({"semaphores": {"printer": 3}}, "semaphores.printer.semaphore"),
    ],
)
async def test_what_is_invalid_changes_nothing(world: World, said: dict[str, Any], field: str) -> None:
    """The error names kind, name and field."""
    with pytest.raises(InvalidInput) as caught:
        await applied(world, {"new": {"noop": True}}, **said)
    assert caught.value.field == field
    assert (await world.service.jobs.list()).jobs == []


async def test_weights_are_judged_by_the_limits_to_be(world: World) -> None:
    """A job that wants more than its semaphore will have is refused before the limit is lowered."""
    heavy = {"nightly": {"noop": True, "semaphores": ["printer:3"]}}
    await applied(world, heavy, semaphores={"printer": {"limit": 3}})
    with pytest.raises(InvalidInput, match="limit of 2"):
        await applied(world, {"other": heavy["nightly"]}, semaphores={"printer": {"limit": 2}})
    assert (await world.service.semaphores.get("printer")).limit == 3
    with pytest.raises(InvalidInput, match="limit of 2") as caught:
        await applied(world, heavy, semaphores={"printer": {"limit": 2}})
    assert caught.value.field == "nightly.semaphores"
    assert (await world.service.semaphores.get("printer")).limit == 3


async def test_what_goes_back_from_its_default_has_changed(world: World) -> None:
    """A queue or a semaphore that a set declares is there all the time: nothing is told as added a second time."""
    await applied(world, queues={"mail": {"paused": False}}, semaphores={"printer": {"limit": 1}})
    found = await applied(world, queues={"mail": {"paused": True}}, semaphores={"printer": {"limit": 3}})
    assert found == {
        "queue": {"changed": {"mail": (FieldChange(field="paused", old=False, new=True),)}},
        "semaphore": {"changed": {"printer": (FieldChange(field="limit", old=1, new=3),)}},
    }


async def test_of_two_sets_at_the_same_time_one_gets_a_name(world: World) -> None:
    """The other is told, and has changed nothing of it."""

    async def attempt(name: str, limit: int) -> str | None:
        try:
            await applied(world, name=name, semaphores={"printer": {"limit": limit}})
        except Conflict:
            return None
        return name

    winners = {await each for each in asyncio.as_completed([attempt("prod", 3), attempt("staging", 4)])} - {None}
    assert set((await owned(world)).values()) == winners
    assert len(winners) == 1


@pytest.mark.parametrize("after", range(1, 5))
async def test_what_was_interrupted_goes_on(world: World, after: int) -> None:
    """Wherever the store went away: applied again the same files end where they would have ended."""
    await applied(world, semaphores={"printer": {"limit": 2}})
    calls = 0

    def failing(work: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def fails(*args: object) -> object:
            nonlocal calls
            calls += 1
            if calls >= after:
                raise StoreUnavailable("gone")
            return await work(*args)

        return fails

    kept = {name: getattr(world.store, name) for name in ("put_document", "put_semaphore", "add_pause")}
    for name, work in kept.items():
        setattr(world.store, name, failing(work))
    with pytest.raises(StoreUnavailable):
        await applied(world, **ALL)
    for name, work in kept.items():
        setattr(world.store, name, work)
    world.clock.moment = Moment(world.clock.moment + TURN_LASTS)
    await applied(world, **ALL)
    assert {word: list(what) for word, what in (await applied(world, **ALL)).items()} == {
        word: ["unchanged"] for word in ("calendar", "queue", "semaphore")
    }


async def test_what_a_set_declares_can_be_read(world: World) -> None:
    """As fields that apply takes, what is not paused too; of everything what differs from what is there unasked."""
    said = {**ALL, "queues": {**PAUSED, "open": {"paused": False}}}
    await applied(world, **said)
    await world.service.semaphores.set("mutex", 1)
    found = await world.service.sets.resources("prod")
    assert found.queues == said["queues"]
    assert await applied(world, calendars=found.calendars, queues=found.queues, semaphores=found.semaphores) == {
        "calendar": {"unchanged": ("holidays",)},
        "queue": {"unchanged": ("mail", "open")},
        "semaphore": {"unchanged": ("printer",)},
    }
    everything = await world.service.sets.resources()
    assert (everything.queues, everything.semaphores) == (PAUSED, ALL["semaphores"])
    with pytest.raises(InvalidInput):
        await world.service.sets.resources("a b")


async def test_a_set_declares_the_rate_of_a_queue(world: World) -> None:
    """With a pause or without one; a queue that the set drops has none, and the whole store's export tells it."""

    async def rate() -> str | None:
        return (await world.service.queues.get("mail")).rate

    declared = {"mail": {"rate": "100/1m"}}
    assert await applied(world, queues=declared) == {"queue": {"added": ("mail",)}}
    assert (await rate(), await pauses(world)) == ("100/m", {})
    assert await applied(world, queues=declared) == {"queue": {"unchanged": ("mail",)}}
    assert (await world.service.sets.resources(None)).queues == {"mail": {"paused": False, "rate": "100/m"}}
    both = {"mail": {"rate": "5/s smooth", **PAUSED["mail"]}}
    assert "changed" in (await applied(world, queues=both))["queue"]
    assert (await rate(), await pauses(world)) == ("5/s smooth", {"mail": "moving"})
    other = {"mail": {"rate": "7/s", "paused": True, "reason": "another one"}}
    assert "changed" in (await applied(world, queues=other))["queue"]
    assert (await rate(), await pauses(world)) == ("7/s", {"mail": "moving"})
    assert await applied(world, prune=True) == {"queue": {"removed": ("mail",)}}
    assert (await rate(), await pauses(world)) == (None, {})


@pytest.mark.parametrize(("name", "said"), [("*", "10/s"), ("mail", "10"), ("mail", 10)])
async def test_a_wrong_rate_of_a_queue_is_refused(world: World, name: str, said: object) -> None:
    """The field and what is allowed are named; all queues together have no rate."""
    with pytest.raises(InvalidInput) as refused:
        await applied(world, queues={name: {"rate": said}})
    assert refused.value.field == f"queues.{name}.rate"
