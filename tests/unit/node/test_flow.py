"""Flow: steps that wait at the same time, each taken again while another one is under way. The test ends them."""

import asyncio

import pytest

from tokimori.node.flow import Flow


class Steps:
    """Steps of one kind, which end when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self._done: asyncio.Queue[int | Exception] = asyncio.Queue()

    async def take(self) -> int:
        """Begin one; what it did comes from `end`."""
        self.begun += 1
        done = await self._done.get()
        if isinstance(done, Exception):
            raise done
        return done

    async def end(self, done: int | Exception = 1) -> None:
        """The one under way ends, and whatever follows from that happens."""
        self._done.put_nowait(done)
        for _ in range(5):
            await asyncio.sleep(0)


class Conditions:
    """What the steps are asked for."""

    enough = True
    goes_on = True


async def begun(conditions: Conditions) -> tuple[Steps, Steps, "asyncio.Future[list[int | BaseException]]"]:
    """Two kinds of steps, the first of each under way, and what comes of them."""
    flow, one, other = Flow(lambda: conditions.goes_on), Steps(), Steps()
    work = (flow.again(each.take, lambda: conditions.enough) for each in (one, other))
    both = asyncio.gather(*work, return_exceptions=True)
    await asyncio.sleep(0)
    assert (one.begun, other.begun) == (1, 1)
    return one, other, both


async def test_a_step_is_taken_again_while_another_is_under_way() -> None:
    """However often; and each in its turn, so that they need not meet."""
    one, other, both = await begun(Conditions())
    await one.end()
    await one.end()
    assert (one.begun, other.begun) == (3, 1)
    await other.end()
    assert (one.begun, other.begun, both.done()) == (3, 2, False)


async def test_the_last_one_under_way_is_not_taken_again() -> None:
    """Nobody needs to be waited for any more; what each did last is told."""
    one, other, both = await begun(Conditions())
    await one.end(0)
    await other.end(7)
    assert (one.begun, other.begun) == (1, 1)
    assert await both == [0, 7]


@pytest.mark.parametrize("condition", ["enough", "goes_on"])
async def test_no_step_is_taken_again_in_vain(condition: str) -> None:
    """Where there is too little to do, and where the node has to see to something else, what is under way ends."""
    conditions = Conditions()
    one, other, both = await begun(conditions)
    setattr(conditions, condition, False)
    await one.end(2)
    await other.end(3)
    assert (one.begun, other.begun) == (1, 1)
    assert await both == [2, 3]


async def test_a_step_that_fails_ends_alone() -> None:
    """Its error is told; the other one ends what it has begun, and counts nobody who is gone."""
    one, other, both = await begun(Conditions())
    await one.end(ValueError("no"))
    await other.end()
    assert (one.begun, other.begun) == (1, 1)
    fault, done = await both
    assert (str(fault), done) == ("no", 1)
