import asyncio

import pytest

from tokimori.clock import Moment
from tokimori.web.cache import LONGEST, MOST, SELDOM, SHARE, AnswerCache


class Hand:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> Moment:
        return Moment(0)

    def monotonic(self) -> float:
        return self.at


async def test_an_answer_is_kept_as_long_as_it_was_costly() -> None:
    """One that took no time is found anew each time; one that took long is given to all for a while, and no longer."""
    clock = Hand()
    kept, asked = AnswerCache(clock), list[float]()

    async def find(cost: float) -> float:
        clock.at += cost
        asked.append(cost)
        return cost

    for _ in range(3):
        await kept.get("cheap", lambda: find(0))
    assert len(asked) == 3
    for _ in range(3):
        await kept.get("dear", lambda: find(0.1))
    assert len(asked) == 4
    clock.at += 0.1 * SHARE
    await kept.get("dear", lambda: find(9))
    clock.at += LONGEST - 1
    await kept.get("dear", lambda: find(9))
    assert len(asked) == 5
    kept.forget()
    await kept.get("dear", lambda: find(9))
    assert len(asked) == 6


async def test_what_changes_seldom_is_kept_longer() -> None:
    """It costs a smaller share of the time; what took no time is found anew all the same, and what is old is gone."""
    clock = Hand()
    kept, asked = AnswerCache(clock), list[float]()

    async def find(cost: float) -> None:
        clock.at += cost
        asked.append(cost)

    for _ in range(2):
        await kept.get("cheap", lambda: find(0), share=SELDOM)
    for wait in (0, 0.01 * SELDOM - 0.5, 1):
        clock.at += wait
        await kept.get("dear", lambda: find(0.01), share=SELDOM)
    assert asked == [0, 0, 0.01, 0.01]
    for n in range(2 * MOST):
        await kept.get(n, lambda: find(0))
    assert len(kept._answers) <= 2


async def test_who_asks_meanwhile_waits_for_the_same_answer() -> None:
    """Also where one of them goes away; a fault is everybody's, and is not kept."""
    kept, gate, asked = AnswerCache(Hand()), asyncio.Event(), list[int]()

    async def find() -> int:
        asked.append(1)
        await gate.wait()
        raise ValueError

    waiting = [asyncio.ensure_future(kept.get("q", find)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in found] == [asyncio.CancelledError, ValueError, ValueError]
    assert len(asked) == 1
    with pytest.raises(ValueError):
        await kept.get("q", find)
    assert len(asked) == 2
