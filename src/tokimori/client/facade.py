"""The way from a synchronous program to an asynchronous object, which lives on a loop in its own thread."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar, cast

from tokimori.errors import Refused
from tokimori.service.operation import Member, Stream

_T = TypeVar("_T")
_Behind = TypeVar("_Behind")
_Behind_co = TypeVar("_Behind_co", covariant=True)


class Runner(Protocol[_Behind_co]):
    """Calls a function with the object behind a façade, and waits for it in the caller's thread."""

    def __call__(self, act: Callable[[_Behind_co], Awaitable[_T]], /) -> _T:
        """Return or raise what `act` does."""
        ...


class SyncVia:
    """The way to a part from another thread: each of its members waits there for what the part behind does."""

    whole = True

    def __init__(self, run: Runner[Any]) -> None:
        self._run = run

    def __call__(self, member: Member[Any, Any], _: str) -> Callable[..., Any]:
        """Return the method, which returns when it is done."""
        run, name = self._run, member.name

        @wraps(member.method)
        def call(*args: object, **kwargs: object) -> Any:
            return run(lambda part: getattr(part, name)(*args, **kwargs))

        @wraps(member.method)
        def iterate(*args: object, **kwargs: object) -> Iterator[Any]:
            return _iterated(run, lambda part: getattr(part, name)(*args, **kwargs))

        made: Any = iterate if isinstance(member, Stream) else call
        made.__signature__ = signature_of(member)
        return cast(Callable[..., Any], made)


def signature_of(member: Member[Any, Any]) -> inspect.Signature:
    """Return the signature of a member as it is called."""
    whole = inspect.signature(member.method)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def _iterated(run: Runner[Any], stream: Callable[[Any], AsyncIterator[_T]]) -> Iterator[_T]:
    """Yield what a stream does: each step waits in the caller's thread."""

    async def begun(part: Any) -> AsyncIterator[_T]:
        return stream(part)

    async def step(_: Any) -> tuple[_T, ...]:
        async for each in steps:
            return (each,)
        return ()

    steps = run(begun)

    async def end(_: Any) -> None:
        if isinstance(steps, AsyncGenerator):
            await steps.aclose()

    try:
        while found := run(step):
            yield found[0]
    finally:
        with suppress(Refused):  # of a client that is closed nothing is left to end
            run(end)


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
