"""An event loop on which time passes only when nobody has anything to do: an hour of waiting takes no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.unit.examples import NEW_YEAR
from tokimori.clock import SECOND, Moment

Result = TypeVar("Result")


MOST_ROUNDS = 100_000
"""Of the loop in one moment; whoever needs more does not wait, but spins."""
GOES_ON = 1_000
"""After so many of them a nanosecond has passed: a clock goes on while somebody waits for what sums of seconds miss."""


class Stuck(Exception):
    """Time can't go on: everybody waits for somebody else, or somebody never waits."""


class _Instant(selectors.SelectSelector):
    """Waits by setting the time forward."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """No descriptor is ever ready: there is no I/O in a simulation."""
        if timeout is None:
            raise Stuck("everybody waits for somebody else")
        self._rounds = 0 if timeout > 0 else self._rounds + 1
        if self._rounds > MOST_ROUNDS:
            raise Stuck(f"somebody never waits at second {round(self.seconds, 6)}")
        self.seconds += max(0.0, timeout) or (1e-9 if self._rounds % GOES_ON == GOES_ON - 1 else 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time is that of its selector."""

    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)

    def time(self) -> float:
        """Virtual seconds since the loop began."""
        return self._instant.seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """What is computed beside the loop takes no virtual time: it is done at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as fault:
            future.set_exception(fault)
        return future


def run_virtually(main: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end on a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


async def let_pass(seconds: float) -> None:
    """So many virtual seconds: nobody waits."""
    await asyncio.sleep(seconds)


class LoopClock:
    """The clock of a machine in the simulation; `offset` is by how many seconds its wall clock is wrong."""

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset

    def now(self) -> Moment:
        """The wall clock."""
        return Moment(NEW_YEAR + round((self._seconds() + self.offset) * SECOND))

    def monotonic(self) -> float:
        """Seconds since the machine started, some time before the simulation."""
        return 1000.0 + self._seconds()

    @staticmethod
    def _seconds() -> float:
        return asyncio.get_running_loop().time()
