"""Notices of changes between nodes: the common part of all stores with a channel for them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tokimori.errors import StoreError

INTERVAL = 0.01
"""Seconds between notices, at least."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before a lost connection is opened again."""

P = ParamSpec("P")
T = TypeVar("T")
Send = Callable[[], Awaitable[object]]
Wake = Callable[[], None]


class Watched(Protocol):
    """Store that notifies its watchers of changes."""

    def tell(self) -> None:
        """Send a notice that something has changed."""
        ...


S = TypeVar("S", bound=Watched)


def telling(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the same method of a store, which sends a notice after the change."""

    @wraps(method)
    async def call(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await method(store, *args, **kwargs)
        store.tell()
        return result

    return call


class Sender:
    """Sender of notices, several of them as one. A notice that can't be sent is dropped."""

    def __init__(self, send: Send) -> None:
        self._send_now = send
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def send(self) -> None:
        """Notify the others soon."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send(), name="tokimori-store-notices")

    async def _send(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._send_now()
            except StoreError:
                return
            await asyncio.sleep(INTERVAL)

    async def close(self) -> None:
        """Send the pending notice."""
        if self._task is not None:
            await asyncio.wait({self._task})


class NoticeListener:
    """Listener for notices of others. If the connection is lost, or can't be opened, it tries again.

    `hear` opens a connection, which may raise `StoreError`, and returns when it is lost.
    """

    def __init__(self, hear: Callable[[], Awaitable[None]]) -> None:
        self._hear = hear
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tokimori-store-listener")

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with suppress(StoreError):
                await self._hear()
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class Notices:
    """Notices of changes to watchers of a store: to those of this program at once, to other nodes soon.

    `send` sends a notice to other nodes, if the server can; `hear`, if it can, calls its argument for each notice of
    theirs, as for a `NoticeListener`.
    """

    def __init__(self, send: Send | None = None, hear: Callable[[Wake], Awaitable[None]] | None = None) -> None:
        self._sender = None if send is None else Sender(send)
        self._hear = hear
        self._listener: NoticeListener | None = None
        self._watchers: list[Wake] = []

    def watch(self, wake: Wake) -> None:
        """Call `wake` for each change from now on."""
        self._watchers.append(wake)
        if self._listener is None and self._hear is not None:
            self._listener = NoticeListener(partial(self._hear, self.wake))

    def wake(self) -> None:
        """Wake the watchers of this program."""
        for wake in self._watchers:
            wake()

    def tell_others(self) -> None:
        """Notify the other nodes."""
        if self._sender is not None:
            self._sender.send()

    def tell(self) -> None:
        """Notify all watchers, this program's included: requests of people are news here, too."""
        self.wake()
        self.tell_others()

    async def close(self) -> None:
        """Stop listening, and send the pending notice."""
        if self._listener is not None:
            await self._listener.close()
        self._listener = None
        if self._sender is not None:
            await self._sender.close()
