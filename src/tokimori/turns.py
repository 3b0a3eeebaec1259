"""Strangers take turns with the engine, which works in the same loop: however much comes at once, runs are not late."""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol


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
    """Lets connections read what has come, as far as there is time for it in this step of the loop; then in turns.

    A parser tells of each piece of a body: 18 kB of one stranger may be 3,000 pieces.
    """

    def __init__(self, longest: float, monotonic: Callable[[], float]) -> None:
        self._step = TurnStep(longest, monotonic)
        self._waiting: deque[WaitingReader] = deque()

    def begin(self, reader: WaitingReader) -> bool:
        """Read what has come; whether some of it has to wait. Not for who waits already."""
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
