"""Weights: how many units of its semaphores a job wants, and whether they ever fit."""

from collections.abc import AsyncIterator, Awaitable, Callable

from tokimori.errors import InvalidInput, NotFound, StoreError
from tokimori.model.job import Definition
from tokimori.model.semaphores import DEFAULT_LIMIT, wanted
from tokimori.ports.semaphores import Semaphores


class Weights:
    """What jobs want of semaphores, beside the limits of these. `opened` gives the store that keeps them."""

    def __init__(self, opened: Callable[[], Awaitable[Semaphores]]) -> None:
        self._opened = opened

    async def check(self, definition: Definition) -> None:
        """Refuse a weight above the limit of its semaphore: its runs would wait for ever. Raises `InvalidInput`.

        A semaphore that nobody made has a limit of one. Who deletes it later makes it a mutex again, and who lowers its
        limit is refused by what stands in its line alone: for more every job would have to be read. Such runs then
        wait, and say for what (`too_heavy`).
        """
        async for name, weight, limit in self._above_their_limits(definition):
            raise InvalidInput(
                f"semaphores: {name!r} has a limit of {limit}, so that {weight} units never fit",
                field="semaphores",
                value=f"{name}:{weight}",
                allowed=f"{name}:1{f' to {name}:{limit}' if limit > 1 else ''}, or a larger limit first",
            )

    async def too_heavy(self, definition: Definition) -> tuple[str, ...]:
        """A sentence for each weight that is above its semaphore's limit, which was lowered since: nothing starts.

        None while their store does not answer.
        """
        try:
            heavy = [found async for found in self._above_their_limits(definition)]
        except StoreError:
            return ()
        return tuple(
            f"{want} units of the semaphore {name} never fit its limit of {most}" for name, want, most in heavy
        )

    async def _above_their_limits(self, definition: Definition) -> AsyncIterator[tuple[str, int, int]]:
        """(name, weight, limit). One unit always fits."""
        for name, weight in wanted(definition.semaphores):
            if weight > DEFAULT_LIMIT and weight > (limit := await self._limit(name)):
                yield name, weight, limit

    async def _limit(self, name: str) -> int:
        try:
            return (await (await self._opened()).get_semaphore(name)).limit
        except NotFound:
            return DEFAULT_LIMIT
