"""Steps of work for strangers, beside the engine."""

import asyncio

from tokimori.turns import TurnStep


class Time:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        """Seconds."""
        return self.now


async def test_a_step_that_was_used_up_is_followed_by_a_rest() -> None:
    """As long as the step had: whatever else the loop has to do comes first, however many steps that takes."""
    time = Time()
    step = TurnStep(60, time.read)
    assert not step.is_over()
    time.now = 61
    for _ in range(10):
        assert step.is_over()
        await asyncio.sleep(0)


async def test_a_step_with_time_left_needs_none() -> None:
    """The next one begins at once."""
    time = Time()
    step, called = TurnStep(60, time.read), asyncio.Event()
    for _ in range(3):
        assert not step.is_over()
        time.now += 10
        await asyncio.sleep(0)
    step.later(called.set)
    await asyncio.sleep(0)
    assert called.is_set()
