"""How often a loop gives others their turn while something is under way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass
class Turns:
    """How many there were so far."""

    count: int = 0


@asynccontextmanager
async def turns_of_others() -> AsyncIterator[Turns]:
    """The turns of somebody who takes each that he gets."""
    turns = Turns()

    async def beside() -> None:
        while True:
            turns.count += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(beside())
    try:
        yield turns
    finally:
        other.cancel()
