"""The way from a synchronous program to an asynchronous object, which lives on a loop in its own thread."""

import asyncio
import inspect
import os
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from itertools import count
from typing import Any, Generic, Protocol, TypeVar, cast

from tokimori.errors import Bug, Refused
from tokimori.service.operation import Member, Stream
from tokimori.service.views.outside import type_given

_T = TypeVar("_T")
_Behind = TypeVar("_Behind")
_Behind_co = TypeVar("_Behind_co", covariant=True)


class Runner(Protocol[_Behind_co]):
    """Caller of a function with the object behind a façade, which waits in the caller's thread.

    `instead` is the advice for a caller on an event loop, which must not wait so.
    """

    def __call__(self, act: Callable[[_Behind_co], Awaitable[_T]], /, instead: str = ...) -> _T:
        """Return or raise what `act` does."""
        ...


class Beginner(Protocol[_Behind_co]):
    """Calls a function with the object behind a façade, and returns at once."""

    def __call__(self, act: Callable[[_Behind_co], Awaitable[_T]], /) -> "Future[_T]":
        """Return the future of what `act` returns or raises."""
        ...


UNSAID = ""
"""In place of that: nothing is logged, as the garbage collector may be the one who calls."""
ASYNC_CLIENT = "`async with tokimori.open_async(…) as client:`, and await its methods"


class SyncVia:
    """Way to a part from another thread: each call waits there for the part behind."""

    whole = True

    def __init__(self, run: Runner[Any]) -> None:
        self._run = run

    def __call__(self, member: Member[Any, Any, Any], called: str) -> Callable[..., Any]:
        """Return the method, which returns when it is done."""
        run, name, instead = self._run, member.name, f"`await client.{called}(…)` of `tokimori.open_async(…)`"

        @wraps(member.method)
        def call(*args: object, **kwargs: object) -> Any:
            return run(lambda part: getattr(part, name)(*args, **kwargs), instead)

        @wraps(member.method)
        def iterate(*args: object, **kwargs: object) -> Iterator[Any]:
            return _iterated(run, lambda part: getattr(part, name)(*args, **kwargs))

        made: Any = iterate if isinstance(member, Stream) else call
        made.__signature__ = signature_of(member)
        return cast(Callable[..., Any], made)


def signature_of(member: Member[Any, Any, Any]) -> inspect.Signature:
    """Return the signature of a member as it is called."""
    whole = inspect.signature(member.method)
    result: Any = whole.return_annotation if member.gives is None else type_given(member.gives)
    if isinstance(member, Stream) and member.gives is not None:
        result = AsyncIterator[result]
    return whole.replace(parameters=list(whole.parameters.values())[1:], return_annotation=result)


def _iterated(run: Runner[Any], stream: Callable[[Any], AsyncIterator[_T]]) -> Iterator[_T]:
    """Yield the items of a stream. Each step waits in the caller's thread."""

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
            run(end, UNSAID)


class Background(Generic[_Behind]):
    """A thread with an event loop, in which an asynchronous object lives. The first call opens the object.

    After a fork the child has neither the thread nor the loop, so its first call makes new ones. It may be shared
    between threads and with other event loops.
    """

    def __init__(self, new: Callable[[], AbstractAsyncContextManager[_Behind]]) -> None:
        self._new = new
        self._by_process: dict[int, _Loop[_Behind]] = {}
        self._warned = {UNSAID}

    def begin(self, act: Callable[[_Behind], Awaitable[_T]]) -> "Future[_T]":
        """Begin `act` and return its future. Raises `Refused` if this is closed."""
        # The parent's entry stays, unused: closing a database's files in a child would drop the parent's locks.
        process = os.getpid()
        if process not in self._by_process:
            self._by_process.setdefault(process, _Loop(self._new))
        return self._by_process[process].begin(act)

    def run(self, act: Callable[[_Behind], Awaitable[_T]], instead: str = ASYNC_CLIENT) -> _T:
        """Call `act` and wait for its result. Raises its errors, and `Refused` if the client is closed before the end.

        A caller on an event loop is warned: see `warn`. The garbage collector may end a stream on the thread of the
        client's loop. That is refused, as nobody would ever answer there, and `act` goes on without a caller.
        """
        self.warn(instead)
        call = self.begin(act)
        if self._by_process[os.getpid()].is_own_thread():
            raise Refused("the client's own thread can't wait for the client")
        return waited(call)

    def warn(self, instead: str) -> None:
        """Warn a caller that is about to block an event loop, once, with the call to write `instead`."""
        if instead not in self._warned and is_on_loop():
            self._warned.add(instead)
            message = f"a blocking call holds up the event loop of this thread; write instead: {instead}"
            warnings.warn(message, RuntimeWarning, stacklevel=_frames_of_ours())

    def close(self) -> None:
        """Close the object and end the thread. Calls of other threads that still wait are given up."""
        loop = self._by_process.get(os.getpid())
        if loop is not None:
            loop.close()


def is_on_loop() -> bool:
    """Return whether an event loop runs in the calling thread, where a wait would hold up all tasks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _frames_of_ours() -> int:
    """Return how many callers, from that of this function on, are of this package: the next one is the user's."""
    frame = sys._getframe(1)
    for number in count(1):
        if not frame.f_globals.get("__name__", "").startswith("tokimori.") or frame.f_back is None:
            return number
        frame = frame.f_back
    raise AssertionError


class _Loop(Generic[_Behind]):
    """The thread and the loop of one process."""

    def __init__(self, new: Callable[[], AbstractAsyncContextManager[_Behind]]) -> None:
        self._new = new
        self._lock = threading.RLock()  # the garbage collector may end a stream while it is held
        self._closing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._opening: asyncio.Task[_Behind] | None = None
        self._opened: AbstractAsyncContextManager[_Behind] | None = None
        self._calls: set[Future[Any]] = set()
        self._closed = False

    def begin(self, act: Callable[[_Behind], Awaitable[_T]]) -> "Future[_T]":
        with self._lock:
            if self._closed:
                raise Refused("this client is closed: open another one")
            call = asyncio.run_coroutine_threadsafe(self._carry_out(act), self._started())
            self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    async def _carry_out(self, act: Callable[[_Behind], Awaitable[_T]]) -> _T:
        return await act(await self._behind())

    async def _behind(self) -> _Behind:
        """Return the object, opened once for all callers. A caller that gives up does not cancel the opening."""
        opening = self._opening
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            opening = self._opening = asyncio.get_running_loop().create_task(self._open())
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def _open(self) -> _Behind:
        manager = self._new()
        behind = await manager.__aenter__()
        self._opened = manager
        return behind

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def close(self) -> None:
        with self._closing:
            with self._lock:  # not until the end: a stream that ends on the loop's thread asks for it
                self._closed = True
                loop, self._loop = self._loop, None
            if loop is None or self._thread is None:
                return
            for call in list(self._calls):  # once the loop has stopped nobody would ever answer them
                call.cancel()
            waited(asyncio.run_coroutine_threadsafe(self._shut(), loop))
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    async def _shut(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._opened is not None:
            await self._opened.__aexit__(None, None, None)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.set_exception_handler(_report)
            self._thread = threading.Thread(target=self._loop.run_forever, name="tokimori-client", daemon=True)
            self._thread.start()
        return self._loop


def _report(
    loop: asyncio.AbstractEventLoop, context: dict[str, Any], is_ending: Callable[[], bool] = sys.is_finalizing
) -> None:
    """Report a fault of the loop, unless the program is ending: it may have left its client open."""
    if not is_ending():
        loop.default_exception_handler(context)


def waited(future: "Future[_T]") -> _T:
    """Wait for the result in the calling thread. Raises `Refused` if the client was closed meanwhile."""
    try:
        return future.result()
    except CancelledError:
        raise Refused(CLOSED) from None
    except BaseException:  # a caller that is interrupted gives the work up
        future.cancel()
        raise


async def awaited(future: "Future[_T]") -> _T:
    """Wait for the result on the running loop. Raises `Refused` if the client was closed meanwhile."""
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        raise Refused(CLOSED) from None


CLOSED = "this client was closed while the call waited"


def done(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that takes the blocking way, and so never waits on a loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    work.close()
    raise Bug("a blocking call has waited on an event loop")
