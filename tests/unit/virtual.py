"""Time and a node's way to the store, as a test wants them."""

from collections import Counter
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from tokimori.clock import SECOND, Moment
from tokimori.errors import StoreRefused, StoreUnavailable
from tokimori.ports.store import Store
from tokimori.testing.manual import VirtualClock


class OffsetClock:
    """Another clock that is set wrong by so many seconds."""

    def __init__(self, clock: VirtualClock, offset: float) -> None:
        self._clock = clock
        self._offset = round(offset * SECOND)

    def now(self) -> Moment:
        """The wall clock, wrong."""
        return Moment(self._clock.now() + self._offset)

    def monotonic(self) -> float:
        """The monotonic clock, which is nobody's business to set."""
        return self._clock.monotonic()


class Link:
    """A way to a store, on which calls and replies get lost.

    `lose_reply` and `lose_call` say of which methods the next so many replies or calls get lost; `away`: all calls.
    `refuses` says which the store refuses, by the method's name and its first argument, of `promote` all of them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.lose_reply: Counter[str] = Counter()
        self.lose_call: Counter[str] = Counter()
        self.away = False
        self.refuses: Callable[[str, Any], bool] = lambda _name, _asked: False

    @property
    def store(self) -> Store:
        """The link, as the store that it leads to."""
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return self._over(name, method) if iscoroutinefunction(getattr(Store, name, None)) else method

    def _over(self, name: str, method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def call(*args: Any, **kwargs: Any) -> object:
            self.calls[name] += 1
            if self.away or self._lost(self.lose_call, name):
                raise StoreUnavailable(f"{name}: nobody answers")
            if args and self.refuses(name, args if name == "promote" else args[0]):
                raise StoreRefused(f"{name}: not this")
            reply = await method(*args, **kwargs)
            if self._lost(self.lose_reply, name):
                raise StoreUnavailable(f"{name}: the reply is lost")
            return reply

        return call

    @staticmethod
    def _lost(lost: Counter[str], name: str) -> bool:
        lost[name] -= 1
        return lost[name] >= 0
