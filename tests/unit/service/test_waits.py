"""Waits for ends of runs: one reader for all, woken by notices where there are any."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.examples import a_run
from tokimori.model.ids import RunId
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.service import waits
from tokimori.service.waits import Waits


class Shelf:
    """A store of runs that have ended, or have not; it tells of ends, or not."""

    def __init__(self, *, tells: bool, marks: bool = False) -> None:
        self.tells, self.marks = tells, marks
        self.ended: set[RunId] = set()
        self.looks: list[list[RunId]] = []
        self.expected: list[RunId] = []
        self.heard: Callable[[Sequence[RunId]], None] = lambda _: None

    async def get_run(self, run_id: RunId) -> Run:
        return a_run(id=run_id, state=RunState.SUCCEEDED if run_id in self.ended else RunState.RUNNING)

    async def ended_among(self, run_ids: Sequence[RunId]) -> list[RunId]:
        self.looks.append(list(run_ids))
        return [each for each in run_ids if each in self.ended]

    def expect(self, run_ids: Sequence[RunId], heard: Callable[[Sequence[RunId]], None]) -> bool:
        self.expected += run_ids
        self.heard = heard
        return self.tells

    def mark(self) -> object:
        return len(self.ended) if self.marks else None

    async def ended_since(self, *_: object) -> Any:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks come at once."""
    for name in ("FIRST_LOOK", "LOOKS", "LOOKS_AT_MARK", "KEENLY"):
        monkeypatch.setattr(waits, name, 0.0)


async def until(holds: Callable[[], bool]) -> None:
    """Let the others go on until it holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0)


@pytest.mark.parametrize("marks", [False, True])
async def test_looks_tell_where_no_notice_comes(*, marks: bool) -> None:
    """All waits are looked at together, and each is told of its own run."""
    shelf = Shelf(tells=False, marks=marks)
    these = Waits(shelf)
    asked = [asyncio.create_task(these.ended(RunId(name), 20)) for name in "aab"]
    await until(lambda: len(shelf.looks) >= 2 - marks)
    assert set(shelf.looks[-1]) == {"a", "b"}
    shelf.ended.add(RunId("a"))
    assert [(await each).state for each in asked[:2]] == [RunState.SUCCEEDED] * 2
    assert not asked[2].done()
    asked[2].cancel()
    await asyncio.wait(asked)
    assert these._work is None


async def test_a_notice_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a further look; one that is wrong changes nothing."""
    monkeypatch.setattr(waits, "RARELY", 3600.0)
    shelf = Shelf(tells=True)
    asked = asyncio.create_task(Waits(shelf).ended(RunId("a"), 20))
    await until(lambda: bool(shelf.looks))
    shelf.heard([RunId("a"), RunId("z")])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asked.done()
    shelf.ended.add(RunId("a"))
    shelf.heard([RunId("a")])
    assert (await asked).state is RunState.SUCCEEDED
    assert len(shelf.looks) == 1


async def test_a_missing_notice_costs_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are looked at again, each in its turn, and asked for again: a node may have come meanwhile."""
    monkeypatch.setattr(waits, "RARELY", 0.0)
    monkeypatch.setattr(waits, "MOST", 2)
    shelf = Shelf(tells=True)
    these = Waits(shelf)
    asked = [asyncio.create_task(these.ended(RunId(name), 20)) for name in "abcde"]
    await until(lambda: len(shelf.expected) >= 20)
    shelf.ended |= {RunId(name) for name in "abcde"}
    assert {(await each).state for each in asked} == {RunState.SUCCEEDED}


async def test_a_wait_has_an_end() -> None:
    """The run is returned as it is then; without a wait at once."""
    these = Waits(Shelf(tells=True))
    assert (await these.ended(RunId("a"), 0)).state is RunState.RUNNING
    assert (await these.ended(RunId("a"), 0.001)).state is RunState.RUNNING
    assert (these._bells, these._work) == ({}, None)


async def test_a_program_that_stops_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is returned as it is: whoever waits asks another node."""
    monkeypatch.setattr(waits, "STOPS_WITHIN", 0.0)
    stops = False
    shelf = Shelf(tells=True)
    asked = asyncio.create_task(Waits(shelf, lambda: stops).ended(RunId("a"), 20))
    await until(lambda: bool(shelf.looks))
    stops = True
    assert (await asked).state is RunState.RUNNING


async def test_a_new_wait_is_looked_at_keenly_where_a_mark_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick run's result is there soon on a store with a mark; later its looks come as rarely as others."""
    monkeypatch.setattr(waits, "LOOKS_AT_MARK", 3600.0)
    shelf = Shelf(tells=False, marks=True)
    these = Waits(shelf)
    asked = asyncio.create_task(these.ended(RunId("a"), 20))
    await until(lambda: bool(shelf.looks))
    shelf.ended.add(RunId("a"))
    assert (await asked).state is RunState.SUCCEEDED
    assert these._between(notifies=False, keen=False) == 3600.0
