"""Runs that a store refuses are passed by, wherever they stand; all others are taken."""

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.engine.refusals import LONGEST_PAUSE, PAUSE, PlannedClaim, RefusedRuns
from tokimori.errors import StoreRefused
from tokimori.model.ids import Lane

FAULT = StoreRefused("no such row for us")


@dataclass(slots=True)
class Queue:
    """Lanes of runs, each a number, of which the store refuses the negative ones."""

    lanes: dict[Lane, list[int]]
    refused: RefusedRuns = field(default_factory=lambda: RefusedRuns("to give out a run"))
    taken: list[int] = field(default_factory=list)
    asked: int = 0
    said: list[str] = field(default_factory=list)

    def ask(self, at: float, limit: int = 100) -> bool:
        """Ask once; whether the store took it."""
        filled = tuple(lane for lane in sorted(self.lanes) if self.lanes[lane])
        asked = self.refused.next(filled, limit, at)
        self.asked += 1
        given = self._given(asked)
        if any(run < 0 for run in given):
            self.said.append(self.refused.refuse(asked, FAULT, at))
            return False
        for lane in asked.lanes:
            self.lanes[lane] = [run for run in self.lanes[lane] if run not in given]
        self.taken += given
        self.refused.took(asked)
        return True

    def _given(self, asked: PlannedClaim) -> list[int]:
        ready = [run for lane in asked.lanes for run in self.lanes[lane][asked.skip :]]
        return ready[: asked.limit]


def lanes_of(*lanes: list[int]) -> Queue:
    """Lanes by number."""
    return Queue({Lane(str(n)): lane for n, lane in enumerate(lanes)})


def test_where_nothing_is_refused_everything_is_asked_for() -> None:
    """Who has met no refusal asks for all lanes and all that it has room for."""
    queue = lanes_of([1, 2], [3])
    assert queue.refused.next((Lane("0"), Lane("1")), 7, 0) == PlannedClaim((Lane("0"), Lane("1")), 7)
    assert queue.ask(0)
    assert queue.taken == [1, 2, 3]


@given(st.lists(st.lists(st.sampled_from([1, 1, 1, -1]), max_size=30), max_size=5), st.integers(1, 40))
def test_all_but_the_refused_are_taken(lanes: list[list[int]], limit: int) -> None:
    """Wherever the refused ones stand, and however many are asked for, all others are taken before a head is due."""
    number = count(1)
    numbered = [[sign * next(number) for sign in lane] for lane in lanes]
    queue = lanes_of(*numbered)
    good = sorted(run for lane in numbered for run in lane if run > 0)
    for _ in range(40 + 12 * sum(map(len, lanes))):
        queue.ask(0, limit)
    assert sorted(queue.taken) == good


def test_a_refused_run_costs_few_questions() -> None:
    """Of 1,000 runs one is refused: it is found by halves, and said by its place."""
    queue = lanes_of([*range(1, 700), -1, *range(700, 1000)], [2000, 2001])
    while queue.lanes[Lane("0")] != [-1]:
        queue.ask(0, 500)
    assert queue.asked < 60
    assert "number 1 of 0; the others go on, and this one is tried again in 5 s: no such row" in " ".join(queue.said)


def test_other_lanes_are_asked_by_turns() -> None:
    """Between two questions for a lane in which runs are refused, all others are asked."""
    queue = lanes_of([-n for n in range(1, 20)], [])
    queue.ask(0)
    for n in range(1, 13):
        queue.lanes[Lane("1")].append(n)
        queue.ask(0)
    assert len(queue.taken) >= 10


def test_the_head_is_tried_again_after_a_while() -> None:
    """Once the store takes it the lane is well; before that it is tried less and less often."""
    queue = lanes_of([-1, 2, 3])
    while 3 not in queue.taken:
        queue.ask(0)
    queue.asked = 0
    while queue.ask(PAUSE - 1) and queue.asked < 5:
        pass
    assert queue.asked == 5
    for tries in range(1, 20):
        assert not queue.ask(tries * LONGEST_PAUSE)
        assert queue.ask(tries * LONGEST_PAUSE)
    queue.lanes[Lane("0")][0] = 1
    assert queue.ask(20 * LONGEST_PAUSE)
    assert queue.taken[-1] == 1


def test_a_run_that_comes_before_the_refused_one_is_taken() -> None:
    """Places move when a more urgent run comes: it is not passed by in the place of the refused one."""
    queue = lanes_of([-1, 2])
    while 2 not in queue.taken:
        queue.ask(0)
    queue.lanes[Lane("0")][:0] = [7]
    queue.lanes[Lane("0")].append(8)
    for _ in range(12):
        queue.ask(0)
    assert sorted(queue.taken) == [2, 7, 8]


@pytest.mark.parametrize("gone", [0, 3, 9])
def test_a_run_in_the_place_of_a_refused_one_that_has_gone_is_taken(gone: int) -> None:
    """Whatever comes under the places that are passed by, in front or between, is found when these are tried again."""
    queue = lanes_of([*range(-10, 0), 1])
    while queue.taken != [1]:
        queue.ask(0)
    del queue.lanes[Lane("0")][gone]
    queue.lanes[Lane("0")].append(2)
    queue.lanes[Lane("0")].insert(gone, 3)
    for _ in range(50):
        queue.ask(LONGEST_PAUSE)
    assert sorted(queue.taken) == [1, 2, 3]
    queue.asked = 0
    while queue.ask(LONGEST_PAUSE) and queue.asked < 20:
        pass
    assert queue.asked == 20


@pytest.mark.parametrize("many", [1, 2])
def test_a_store_that_refuses_everything_seems_ill(many: int) -> None:
    """Where nothing was taken since a run alone was refused, who asks waits; an answer ends that."""
    queue = lanes_of(*([-n for n in range(1, 50)] for _ in range(many)))
    for _ in range(5):
        assert not queue.ask(0, limit=4)
    assert queue.refused.all_refused
    queue.lanes = {lane: [run + 100 for run in runs] for lane, runs in queue.lanes.items()}
    assert queue.ask(0)
    assert not queue.refused.all_refused
