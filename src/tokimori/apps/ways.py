"""Ways of an app to its client: one waits in the caller's thread, the other is awaited on the caller's event loop."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tokimori.client.asynchronous import Act, Way
from tokimori.client.client import Client
from tokimori.client.facade import awaited

_T = TypeVar("_T")


class Ways:
    """Ways to the client that `client` returns, one pool of connections for both: its loop has a thread of its own.

    The caller's event loop so goes on, whatever the store does.
    """

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    def blocking(self, instead: str) -> Way:
        """Return the way that waits in the calling thread. On an event loop it warns, and says what to write."""

        async def way(act: Act[_T], /) -> _T:
            return self._client()._run(act, instead)

        return way

    def warn(self, instead: str) -> None:
        """Warn once if the caller, who is about to wait, is on an event loop, and say what to write."""
        self._client()._background.warn(instead)

    async def awaiting(self, act: Act[_T], /) -> _T:
        """Return or raise what `act` does; the calling task waits, and its loop goes on."""
        return await awaited(self.begin(act))

    def begin(self, act: Act[_T]) -> "Future[_T]":
        """Begin `act` and return its future."""
        return self._client()._begin(act)
