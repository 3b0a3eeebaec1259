"""Threads in which functions that do not wait are called: as many as there is work for, never more than are allowed.

`ThreadPoolExecutor` makes a future with a lock for each call, which is a quarter of what a no-op costs here; nobody
waits for these calls, who end by telling of themselves.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

_T = TypeVar("_T")
Later = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds, in the thread that asks for it."""

GLANCE = 0.001
"""Seconds for which work may wait for a thread that there is. To begin one takes about ten times as long as a no-op."""


class Threads(Generic[_T]):
    """Calls `act`, which raises nothing, with each thing that it is given. All methods belong to one thread."""

    def __init__(self, most: int, act: Callable[[_T], None], later: Later) -> None:
        self._most = most
        self._act = act
        self._later = later
        self._given: SimpleQueue[_T | None] = SimpleQueue()
        self._begun = 0
        self._looks = False

    def give(self, thing: _T, busy: int) -> None:
        """Call `act` with it, while `busy` others may be in hand: a thread is begun where each has one of these.

        Of many that come together only those get another one that still wait a moment later: most take no longer.
        Where the machine gives none it waits for one of those that there are. Raises `RuntimeError` where none is.
        """
        if self._begun <= busy and self._begun < self._most:
            if self._given.empty():
                self._begin_one()
            elif not self._looks:
                self._looks = True
                self._later(GLANCE, self.begin_missing)
        self._given.put(thing)

    def close(self) -> None:
        """Let each end when it has done what it was given. One that never does keeps nobody waiting.

        None is begun any more: it would take the end of another one, which would wait for ever.
        """
        self._most = self._begun
        for _ in range(self._begun):
            self._given.put(None)

    def begin_missing(self) -> None:
        """Begin a thread for each thing that still waits for one."""
        self._looks = False
        for _ in range(min(self._given.qsize(), self._most - self._begun)):
            self._begin_one()

    def _begin_one(self) -> None:
        try:
            threading.Thread(target=self._work, name=f"tokimori_{self._begun + 1}", daemon=True).start()
            self._begun += 1
        except RuntimeError:
            if not self._begun:
                raise

    def _work(self) -> None:
        while (thing := self._given.get()) is not None:
            self._act(thing)
