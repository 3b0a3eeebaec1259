"""Weights: how many units of its semaphores a job wants, and whether these ever fit."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType

from tokimori.errors import InvalidInput, NotFound, StoreError
from tokimori.model.job import Definition
from tokimori.model.semaphores import DEFAULT_LIMIT, wanted
from tokimori.ports.semaphores import SemaphoreTable
from tokimori.service.why import stops
from tokimori.service.why.reasons import Reason


class Weights:
    """The weights of jobs, compared with the limits of semaphores. `opened` gives the store that keeps these.

    `limits` are those that semaphores are to have, but have not yet.
    """

    def __init__(
        self, opened: Callable[[], Awaitable[SemaphoreTable]], limits: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._opened = opened
        self._limits = limits

    async def check(self, definition: Definition) -> None:
        """Refuse a weight above the limit of its semaphore: the runs would wait for ever. Raises `InvalidInput`.

        A semaphore that nobody made has a limit of one. If it is deleted later it becomes a mutex again, and its limit
        can be lowered later if nobody in its line wants more: to know better, every job would have to be read. Then the
        runs wait, and say for what (`too_heavy`).
        """
        async for name, weight, limit in self._above_their_limits(definition):
            raise _never_fits(name, weight, limit)

    def check_lowered(self, definition: Definition) -> None:
        """Refuse a weight above a limit that its semaphore is to get while the job is there. Raises `InvalidInput`."""
        for name, weight in wanted(definition.semaphores):
            if weight > (limit := self._limits.get(name, weight)):
                raise _never_fits(name, weight, limit)

    async def too_heavy(self, definition: Definition) -> tuple[Reason, ...]:
        """Return each weight above the limit of its semaphore, which was lowered since: no run starts.

        There are none while the store of the semaphores does not answer.
        """
        try:
            heavy = [found async for found in self._above_their_limits(definition)]
        except StoreError:
            return ()
        return tuple(stops.too_heavy(*each) for each in heavy)

    async def _above_their_limits(self, definition: Definition) -> AsyncIterator[tuple[str, int, int]]:
        """(name, weight, limit) of each weight that does not fit. One unit always fits."""
        for name, weight in wanted(definition.semaphores):
            if weight > DEFAULT_LIMIT and weight > (limit := await self._limit(name)):
                yield name, weight, limit

    async def _limit(self, name: str) -> int:
        if name in self._limits:
            return self._limits[name]
        try:
            return (await (await self._opened()).get_semaphore(name)).limit
        except NotFound:
            return DEFAULT_LIMIT


def _never_fits(name: str, weight: int, limit: int) -> InvalidInput:
    return InvalidInput(
        f"semaphores: {name!r} has a limit of {limit}, so that {weight} units never fit: raise it with "
        f"`tokimori lock set {name} --limit {weight}`",
        field="semaphores",
        value=f"{name}:{weight}",
        allowed=f"{name}:1{f' to {name}:{limit}' if limit > 1 else ''}, or a larger limit first",
    )
