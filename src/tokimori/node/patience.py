"""Waiting for a store that is away when a node starts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tokimori.errors import StoreUnavailable

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the store is asked again."""


async def answered(
    ask: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[], bool] = lambda: True,
    tell: Callable[[str], None] = log.warning,
) -> bool:
    """Ask the store until it answers, as long as that is wanted: whether it did. `tell` hears of the first failure.

    Only what can pass is waited out. What a person has to mend is raised: any `StoreError` but `StoreUnavailable`.
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
