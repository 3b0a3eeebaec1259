"""What screens cost, counted in questions to the store and in moments that are reckoned: time differs by machine."""

import asyncio
from collections.abc import Iterator
from copy import copy
from typing import Any

import pytest

from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.clock import Moment
from tokimori.model.access_token import Role
from tokimori.model.outcome import Failed
from tokimori.model.transitions import RunState
from tokimori.schedules.schedule import each_moment
from tokimori.web.screens import plan

PART = ("tokimori-part", "1")


def questions(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[Any, ...]]:
    """What the store is asked from now on by this method."""
    asked, method = list[tuple[Any, ...]](), getattr(world.store, name)

    async def noted(*values: Any) -> Any:
        asked.append(values)
        return await method(*values)

    monkeypatch.setattr(world.store, name, noted)
    return asked


async def test_now_reads_what_stands_once(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first screen and the numbers of the rail are of one reading; other screens read for the rail alone."""
    await add(world)
    asked = questions(world, monkeypatch, "list_runs")
    for path in ("/", "/calendars"):
        asked.clear()
        await tab.show(path)
        assert [wanted.states for (wanted,) in asked].count(frozenset({RunState.BLOCKED})) == 1, path


async def test_tabs_that_hear_of_a_change_share_an_answer(
    world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred cost one reading in two seconds, unless something is done here; other rights have their own."""
    await add(world)
    asked = questions(world, monkeypatch, "list_pauses")

    async def ages(*tabs: Tab) -> set[str]:
        asked.clear()
        answers = await asyncio.gather(*(each.ask("/queues", "GET", PART) for each in tabs))
        assert len({each.body for each in answers}) == 1
        return {each.headers["server-timing"].rpartition("=")[2] for each in answers}

    await ages(tab)
    alone = len(asked)
    world.pass_seconds(3)
    assert await ages(*[tab] * 200) == {"0"}
    assert 0 < len(asked) <= alone
    world.pass_seconds(1)
    assert await ages(*[tab] * 200) == {"1000"}
    assert asked == []
    eve, token = copy(tab), await world.service.tokens.create("eve", Role.READ, queues=["mine"])
    eve._always = [("host", "localhost"), ("authorization", f"Bearer {token.text}")]
    assert await ages(eve) == {"0"}
    await tab.press("queues.pause", "default")
    assert await ages(tab) == {"0"}


async def test_most_jobs_are_known_to_fail_by_one_run(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job that has ended last its newest run is read; only of one with runs that are open more are."""
    for name in ("over", "again"):
        await add(world, name)
        await world.trigger(name)
    await world.work(Failed(error="no luck", exit_code=3))
    await world.work(Failed(error="no luck", exit_code=3))
    await world.trigger("again")
    asked = questions(world, monkeypatch, "last_runs")
    page = await tab.show("/jobs?state=failing")
    assert page.keys("job") == ["again", "over"]
    assert [(set(ids), limit) for ids, limit, _ in asked[:2]] == [({"again", "over"}, 1), ({"again"}, 5)]


async def test_a_calendar_reckons_what_it_tells(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many busy jobs the soonest thousand firings are told, and hardly any other moment is reckoned."""
    for n in range(15):
        await add(world, f"busy-{n}", schedule=f"every {n + 1} minutes")
    reckoned = list[Moment]()

    def noted(*values: Any) -> Iterator[Moment]:
        for moment in each_moment(*values):
            reckoned.append(moment)
            yield moment

    monkeypatch.setattr(plan, "each_moment", noted)
    monkeypatch.setattr(plan, "MOST_EVENTS", 200)
    answer = await tab.ask("/calendar.ics")
    assert answer.body.count(b"BEGIN:VEVENT") == 200
    assert len(reckoned) <= 200 + 15
