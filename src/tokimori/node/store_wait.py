"""Waits for a store that is away, at the start of a node and later, as long as it can come back by itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tokimori.clock import Clock
from tokimori.errors import StoreError, StoreReplaced, StoreUnavailable

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the store is asked again: twice as many each time."""
QUIET = 2.0
"""Seconds during which the same line is not logged again."""
LOST = 5.0
"""Seconds to wait for a missing file; after them nobody is just moving it."""


class Missing:
    """Time since which a store reports that its file is missing, or is another one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def check(self, fault: StoreError) -> None:
        """Allow another try after this fault, or raise `StoreReplaced` if the store's file has been missing for
        long."""
        if not isinstance(fault, StoreReplaced):
            self.found()
            return
        at = self._clock.monotonic()
        self._since = at if self._since is None else self._since
        if at >= self._since + LOST:
            raise StoreReplaced(f"the node stops, and ends its runs: for {LOST:g} s now it has had no store: {fault}")

    def found(self) -> None:
        """Note that the store has answered."""
        self._since = None


class Patience:
    """Wait of a node after a failure of its work: longer each time, until a turn succeeds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._missing = Missing(clock)
        self._pause, self._was_away = FIRST_PAUSE, False
        self._told, self._quiet_until = "", clock.monotonic()

    def answered(self) -> None:
        """Note that all went well."""
        self._missing.found()
        if self._was_away:
            log.info("the store answers again")
        self._pause, self._was_away = FIRST_PAUSE, False

    def after(self, fault: StoreError) -> float:
        """Return the seconds to wait after this fault of the store. Raises `StoreReplaced`, see `Missing`."""
        self._missing.check(fault)
        self._was_away = True
        self._tell(str(fault))
        return self.longer()

    def _tell(self, fault: str) -> None:
        at = self._clock.monotonic()
        if fault != self._told or at >= self._quiet_until:
            self._told, self._quiet_until = fault, at + QUIET
            log.warning("can't use the store; retrying: %s", fault)

    def longer(self) -> float:
        """Return the seconds to wait after any failure: twice as many as after the one before."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause


async def answered(
    ask: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[], bool] = lambda: True,
    tell: Callable[[str], None] = log.warning,
) -> bool:
    """Call the store until it answers, as long as `wanted` agrees; return if it did. `tell` receives the first failure.

    Only `StoreUnavailable` is waited out. Any other `StoreError`, which a person has to mend, is raised.
    """
    pause = FIRST_PAUSE
    while wanted():
        try:
            await ask()
            return True
        except StoreUnavailable as fault:
            if pause == FIRST_PAUSE:
                tell(f"Waiting for the store: {fault}")
            else:
                log.warning("still waiting for the store: %s", fault)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    return False
