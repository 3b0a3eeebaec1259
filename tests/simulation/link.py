"""A node's way to the store, with everything that can happen on it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, cast

from tokimori.errors import StoreUnavailable
from tokimori.ports.store import Store


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each fault is with each call, and how long (seconds, on average) a call is under way."""

    lost_call: float = 0.0
    lost_reply: float = 0.0
    late_call: float = 0.0
    """The caller is told that nobody answers, and the store does it some seconds later all the same."""
    slow: float = 0.0
    """The call takes up to three seconds."""
    latency: float = 0.0


FAIR = Weather(latency=0.002)


class Link:
    """A store, as it looks from one node. Calls get lost, doubled in time and late; the node freezes and dies on them.

    `weather` may be set at any time. A point is the moment before or after a call: `freeze_in(n, seconds)` stops the
    node for so long (SIGSTOP) at the nth from now, and after `crash_in(n)` that point is never left.
    """

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self._frozen_until = 0.0
        self._away_until = 0.0
        self._fuses: list[tuple[int, float]] = []
        """(points left, seconds to freeze)"""
        self.weather = FAIR
        self.crashed = asyncio.Event()
        self._late: set[asyncio.Task[object]] = set()

    @property
    def store(self) -> Store:
        """The link, as the store that it leads to."""
        return cast(Store, self)

    def cut(self, seconds: float) -> None:
        """Nobody answers for so long."""
        self._away_until = asyncio.get_running_loop().time() + seconds

    def freeze_in(self, points: int, seconds: float) -> None:
        """Freeze at the nth point from now."""
        self._fuses.append((points, seconds))

    def crash_in(self, points: int) -> None:
        """Die at the nth point from now."""
        self._fuses.append((points, float("inf")))

    def calm_down(self) -> None:
        """From now on all is well."""
        self.weather = FAIR
        self._away_until = 0.0
        self._fuses.clear()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return self._over(name, method) if iscoroutinefunction(getattr(Store, name, None)) else method

    def _over(self, name: str, method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def call(*args: Any, **kwargs: Any) -> object:
            weather, chance = self.weather, self._chance.random()
            await self._under_way(weather)
            if asyncio.get_running_loop().time() < self._away_until or chance < weather.lost_call:
                raise StoreUnavailable(f"{name}: nobody answers")
            if chance < weather.lost_call + weather.late_call:
                self._do_later(method(*args, **kwargs))
                raise StoreUnavailable(f"{name}: no answer in time")
            reply = await method(*args, **kwargs)
            await self._under_way(weather)
            if self._chance.random() < weather.lost_reply:
                raise StoreUnavailable(f"{name}: the reply is lost")
            return reply

        return call

    async def _under_way(self, weather: Weather) -> None:
        delay = self._chance.expovariate(1 / weather.latency) if weather.latency else 0.0
        if self._chance.random() < weather.slow:
            delay += self._chance.uniform(0.5, 3)
        await asyncio.sleep(delay)
        loop = asyncio.get_running_loop()
        blown = max((seconds for points, seconds in self._fuses if points <= 0), default=0.0)
        self._fuses = [(points - 1, seconds) for points, seconds in self._fuses if points > 0]
        self._frozen_until = max(self._frozen_until, loop.time() + blown)
        if blown == float("inf"):
            self.crashed.set()
            await asyncio.Event().wait()
        await self._thaw()

    async def _thaw(self) -> None:
        left = self._frozen_until - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)
            await self._thaw()  # it may have been frozen once more

    def _do_later(self, call: Awaitable[object]) -> None:
        async def late() -> None:
            await asyncio.sleep(self._chance.uniform(0.1, 4))
            try:
                await call
            except Exception:  # noqa: S110  whoever asked has gone: nobody is there to be told
                pass

        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(late())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
