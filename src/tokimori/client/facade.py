"""Façades: through one a synchronous program uses an asynchronous object, which lives on a loop in its own thread.

The methods of a façade are made from those of the object, never written again.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tokimori.errors import Refused
from tokimori.service.operation import Member, Stream

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Behind = TypeVar("_Behind")
_Behind_co = TypeVar("_Behind_co", covariant=True)


class Runner(Protocol[_Behind_co]):
    """Calls a function with the object behind a façade, and waits for it in the caller's thread."""

    def __call__(self, act: Callable[[_Behind_co], Awaitable[_T]], /) -> _T:
        """Return or raise what `act` does."""
        ...


class Facade(Generic[_Behind_co]):
    """The synchronous side of an asynchronous object: the same methods, which return when they are done."""

    def __init__(self, run: Runner[_Behind_co]) -> None:
        self._run = run


def synchronous(
    method: Callable[Concatenate[_Behind, _P], Awaitable[_T]],
) -> Callable[Concatenate[Facade[_Behind], _P], _T]:
    """Return the same method for synchronous callers: it waits for the result in their thread."""

    @wraps(method)
    def call(facade: Facade[_Behind], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return facade._run(lambda behind: of_its_kind(behind)(*args, **kwargs))

    def of_its_kind(behind: _Behind) -> Callable[_P, Awaitable[_T]]:
        """Return the method of what is behind, which may do the same in another way."""
        own: Callable[_P, Awaitable[_T]] = getattr(behind, method.__name__)
        return own

    return call


def iterated(
    method: Callable[Concatenate[_Behind, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Facade[_Behind], _P], Iterator[_T]]:
    """Return the same iteration for synchronous callers: each step waits in their thread."""

    @wraps(method)
    def call(facade: Facade[_Behind], /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        async def begun(behind: _Behind) -> AsyncIterator[_T]:
            found: AsyncIterator[_T] = getattr(behind, method.__name__)(*args, **kwargs)
            return found

        async def step(_: _Behind) -> tuple[_T, ...]:
            async for each in steps:
                return (each,)
            return ()

        steps = facade._run(begun)

        async def end(_: _Behind) -> None:
            if isinstance(steps, AsyncGenerator):
                await steps.aclose()

        try:
            while found := facade._run(step):
                yield found[0]
        finally:
            with suppress(Refused):  # of a client that is closed nothing is left to end
                facade._run(end)

    return call


class SyncVia:
    """The way to a part from another thread: each of its members waits there for what the part behind does."""

    whole = True

    def __init__(self, run: Runner[Any]) -> None:
        self._facade = Facade[Any](run)

    def __call__(self, member: Member[Any, Any], _: str) -> Callable[..., Any]:
        """Return the method, which returns when it is done."""
        made: Callable[..., Any] = iterated if isinstance(member, Stream) else synchronous
        return MethodType(made(member.method), self._facade)


class Background(Generic[_Behind]):
    """A thread with an event loop, in which an asynchronous object lives. The first call opens the object.

    After a fork the child has neither the thread nor the loop, so its first call makes new ones. It may be shared
    between threads.
    """

    def __init__(self, new: Callable[[], AbstractAsyncContextManager[_Behind]]) -> None:
        self._new = new
        self._by_process: dict[int, _Loop[_Behind]] = {}

    def run(self, act: Callable[[_Behind], Awaitable[_T]]) -> _T:
        """Call `act` and wait for it. Raises what `act` does, and `Refused` if this is closed, or closed meanwhile."""
        # The parent's entry stays, unused: closing a database's files in a child would drop the parent's locks.
        process = os.getpid()
        if process not in self._by_process:
            self._by_process.setdefault(process, _Loop(self._new))
        return self._by_process[process].run(act)

    def close(self) -> None:
        """Close the object and end the thread. Calls of other threads that still wait are given up."""
        loop = self._by_process.get(os.getpid())
        if loop is not None:
            loop.close()


class _Loop(Generic[_Behind]):
    """The thread and the loop of one process."""

    def __init__(self, new: Callable[[], AbstractAsyncContextManager[_Behind]]) -> None:
        self._new = new
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._opened: tuple[AbstractAsyncContextManager[_Behind], _Behind] | None = None
        self._calls: set[Future[Any]] = set()
        self._closed = False

    def run(self, act: Callable[[_Behind], Awaitable[_T]]) -> _T:
        with self._lock:
            if self._closed:
                raise Refused("this client is closed: open another one")
            loop = self._started()
            if self._opened is None:
                self._opened = _wait(_begun(loop, self._open()))
            call = _begun(loop, act(self._opened[1]))
            self._calls.add(call)
        try:
            return _wait(call)
        finally:
            self._calls.discard(call)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
            if loop is None or self._thread is None:
                return
            for call in list(self._calls):  # once the loop has stopped nobody would ever answer them
                call.cancel()
            if self._opened is not None:
                _wait(_begun(loop, self._opened[0].__aexit__(None, None, None)))
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="tokimori-client", daemon=True)
            self._thread.start()
        return self._loop

    async def _open(self) -> tuple[AbstractAsyncContextManager[_Behind], _Behind]:
        manager = self._new()
        return manager, await manager.__aenter__()


def _begun(loop: asyncio.AbstractEventLoop, work: Awaitable[_T]) -> "Future[_T]":
    async def do() -> _T:
        return await work

    return asyncio.run_coroutine_threadsafe(do(), loop)


def _wait(future: "Future[_T]") -> _T:
    try:
        return future.result()
    except CancelledError:
        raise Refused("this client was closed while the call waited") from None
    except BaseException:  # a caller that is interrupted gives the work up
        future.cancel()
        raise
