"""Runs at the start of a machine, asked for beside the node's work: there may be a million jobs to look through."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tokimori.engine.refusals import tell
from tokimori.node.patience import answered

log = logging.getLogger(__name__)


@asynccontextmanager
async def asked_beside(ask: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """While this lasts the store is asked until it has answered once. What it refuses ends no node."""
    asking = asyncio.create_task(_ask(ask))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(ask: Callable[[], Awaitable[object]]) -> None:
    try:
        await answered(ask)
    except Exception as fault:
        tell(log, f"not all that runs when this machine starts could be asked for: {fault}", fault)
