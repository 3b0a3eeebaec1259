"""Turns: limits on the work for others in one step of the loop, so that the engine, in the same loop, is never late.
Callers that wait for the store share statements.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from math import inf
from typing import Generic, Protocol, TypeVar

from tokimori.errors import StoreUnavailable

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_R = TypeVar("_R")

SIDE_BY_SIDE = 2
"""Number of statements of one key under way; the next one waits for one of these to end."""
MOST, MOST_CHARACTERS = 100, 2**18
"""Number of calls that share a statement, and length of their values."""


class TurnStep:
    """The time that one kind of work may take in one step of the loop, in seconds.

    After a step that has used it up it rests for as long: to begin a run takes the engine some ten steps, and each of
    them would stand behind one of strangers.
    """

    def __init__(self, longest: float, monotonic: Callable[[], float]) -> None:
        self._longest = longest
        self._monotonic = monotonic
        self._end = inf

    def is_over(self) -> bool:
        """Return whether the rest is for a later step. Each step has time for one piece of work at least."""
        if self._end < inf:
            return self._monotonic() >= self._end
        self._end = self._monotonic() + self._longest
        asyncio.get_running_loop().call_soon(self._next)
        return False

    def later(self, act: Callable[[], None]) -> None:
        """Call it in the next step that has time for this work."""
        loop = asyncio.get_running_loop()
        if self._end < inf and self.is_over():
            loop.call_later(self._longest, act)
        else:
            loop.call_soon(act)

    def _next(self) -> None:
        if self.is_over():
            asyncio.get_running_loop().call_later(self._longest, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._end = inf


class WaitingReader(Protocol):
    """Connection with bytes to read."""

    def read_on(self) -> bool:
        """Read the next few of them; whether there are more."""


class TurnsOfReaders:
    """Lets connections read what has come, as far as this step of the loop has time; then in turns.

    A parser reports each piece of a body: 18 kB of one stranger may be 3,000 pieces.
    """

    def __init__(self, longest: float, monotonic: Callable[[], float]) -> None:
        self._step = TurnStep(longest, monotonic)
        self._waiting: deque[WaitingReader] = deque()

    def begin(self, reader: WaitingReader) -> bool:
        """Read new items; return if some of them have to wait. It leaves out those that wait already."""
        is_first = not self._waiting
        while is_first and not self._step.is_over():
            if not reader.read_on():
                return False
        if is_first:
            self._step.later(self._go_on)
        self._waiting.append(reader)
        return True

    def _go_on(self) -> None:
        while self._waiting and not self._step.is_over():
            reader = self._waiting.popleft()
            if reader.read_on():
                self._waiting.append(reader)
        if self._waiting:
            self._step.later(self._go_on)


class _Line(Generic[_V, _R]):
    """Calls of one key."""

    def __init__(self) -> None:
        self.under_way = 0
        self.waiting = deque[tuple[_V, asyncio.Future[_R]]]()

    def take(self, length: Callable[[_V], int]) -> list[tuple[_V, asyncio.Future[_R]]]:
        """Take the next ones that go together; a caller that has given up is left out."""
        taken, characters = list[tuple[_V, asyncio.Future[_R]]](), 0
        while self.waiting and len(taken) < MOST and (not taken or characters < MOST_CHARACTERS):
            value, answer = self.waiting.popleft()
            if not answer.done():
                taken.append((value, answer))
                characters += length(value)
        return taken


class Together(Generic[_K, _V, _R]):
    """`act` with a key and some values, called by many with one value each.

    Its work for a value begins after the call with it. If it refuses several, each is tried alone.
    """

    def __init__(
        self, act: Callable[[_K, Sequence[_V]], Awaitable[Sequence[_R]]], length: Callable[[_V], int] = lambda _: 0
    ) -> None:
        self._act, self._length = act, length
        self._lines: dict[_K, _Line[_V, _R]] = {}
        self._tasks = set[asyncio.Task[None]]()

    async def __call__(self, key: _K, value: _V) -> _R:
        """Return the answer for this value, or raise what `act` raises."""
        line = self._lines.setdefault(key, _Line())
        if line.under_way == SIDE_BY_SIDE:
            answer: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
            line.waiting.append((value, answer))
            return await answer
        line.under_way += 1
        try:
            return (await self._act(key, [value]))[0]
        finally:
            self._go_on(key, line)

    def _go_on(self, key: _K, line: _Line[_V, _R]) -> None:
        """Give the place to those who wait, or free it."""
        if batch := line.take(self._length):
            task = asyncio.get_running_loop().create_task(self._answer(key, line, batch), name="tokimori-together")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        line.under_way -= 1
        if not line.under_way:
            self._lines.pop(key, None)

    async def _answer(self, key: _K, line: _Line[_V, _R], batch: Sequence[tuple[_V, asyncio.Future[_R]]]) -> None:
        try:
            results: Sequence[_R | BaseException] = await self._act(key, [value for value, _ in batch])
        except StoreUnavailable as fault:
            results = [fault] * len(batch)
        except Exception:
            alone = (self._act(key, [value]) for value, _ in batch)
            found = await asyncio.gather(*alone, return_exceptions=True)
            results = [each if isinstance(each, BaseException) else each[0] for each in found]
        except BaseException:
            for _, answer in batch:
                answer.cancel()
            raise
        finally:
            self._go_on(key, line)
        for (_, answer), result in zip(batch, results, strict=True):
            if not answer.done():
                answer.set_exception(result) if isinstance(result, BaseException) else answer.set_result(result)
