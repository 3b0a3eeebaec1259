"""Requests take turns with the engine."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.unit.api.asgi import SECRET, Asker
from tests.unit.api.conftest import HEALTHY, an_app
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app, operations
from tokimori.api.turns import LONGEST_STEP, VIEWS_AT_ONCE, Turns, in_steps
from tokimori.clock import MILLISECOND, Moment, SystemClock
from tokimori.node.http_door import formats
from tokimori.web.page import Page

EACH = 5 * MILLISECOND
"""How long a request holds the loop."""


async def test_requests_that_come_at_once_hold_up_nobody_together(world: World) -> None:
    """However many they are: what else waits for the loop has it after 20 ms, and the request that began before."""

    def slowly() -> Health:
        world.clock.moment = Moment(world.clock.moment + EACH)
        return HEALTHY

    door = Asker(create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=slowly), bare=True)
    began, steps = world.clock.monotonic(), [0.0]
    asked = [asyncio.ensure_future(door.get("/healthz")) for _ in range(100)]
    while not all(each.done() for each in asked):
        await asyncio.sleep(0)
        steps.append(world.clock.monotonic() - began)
    longest = max(after - before for before, after in pairwise(steps))
    assert steps[-1] == pytest.approx(100 * 0.005), "all were answered"
    assert longest < LONGEST_STEP + 0.005


async def test_a_long_list_is_made_in_steps() -> None:
    """Whoever asks meanwhile waits for a hundred of its rows, and not for all of them."""
    made: list[int] = []
    done: list[int] = []

    def view(value: int) -> int:
        made.append(value)
        return -value

    async def other() -> None:
        while len(made) < 250:
            done.append(len(made))
            await asyncio.sleep(0)

    views, _ = await asyncio.gather(in_steps(view, range(250)), other())
    assert views == [-value for value in range(250)]
    assert done == [VIEWS_AT_ONCE, 2 * VIEWS_AT_ONCE]


class CountedClock(SystemClock):
    """A clock that stands still unless it is set, and counts how often it is looked at."""

    def __init__(self) -> None:
        self.at, self.looks = 0.0, 0

    def monotonic(self) -> float:
        """Seconds."""
        self.looks += 1
        return self.at


async def test_who_waits_for_its_turn_costs_nothing() -> None:
    """However many wait: nobody looks at each of them in every step of the loop, and they begin in their order."""
    clock = CountedClock()
    begun: list[int] = []

    async def slow(scope: Scope, _receive: Receive, _send: Send) -> None:
        clock.at += 0 if begun else 2 * LONGEST_STEP  # the others come too late for their step, and need no rest
        begun.append(scope["number"])

    async def nothing() -> Message:
        return {}

    async def drop(_: Message) -> None:
        return

    turns = Turns(slow, clock)
    asked = [asyncio.ensure_future(turns({"number": number}, nothing, drop)) for number in range(300)]
    await asyncio.sleep(0)
    asked[7].cancel()
    await asyncio.wait(asked)
    assert begun == [number for number in range(300) if number != 7]
    assert clock.looks < 4 * 300


@pytest.mark.parametrize("path", ["/api/v2/jobs", "/api/v2/export/json", "/api/v2/calls/jobs.list", "/"])
async def test_few_lists_are_made_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """However many ask: 200 that were made in one step of the loop held it for 4 s."""
    page = Page(lambda _: world.service, world.clock)
    app = an_app(
        world,
        formats=formats(world.clock),
        pages=page.routes(),
    )
    door, listing, most = Asker(app), world.store.list_jobs, [0, 0]

    async def slowly(**given: Any) -> Any:
        most[:] = most[0] + 1, max(most[1], most[0] + 1)
        await asyncio.sleep(0)
        most[0] -= 1
        return await listing(**given)

    monkeypatch.setattr(world.store, "list_jobs", slowly)
    asked = [door.post(path, {}) if "calls" in path else door.get(path) for _ in range(5)]
    answers = await asyncio.gather(*asked)
    assert ({each.status for each in answers}, most[1]) == ({200}, 2)


def test_what_answers_with_a_whole_family_waits_in_line() -> None:
    """Its answer is as large as a list; an order to many waits as one to all that a filter finds."""
    known = {each.id: each for each in operations(lambda _: None, None, None)}  # type: ignore[arg-type, return-value]
    assert all(known[name].large for name in ("run_cancel_family", "run_retry_family", "run_bulk"))
