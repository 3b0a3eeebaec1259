"""Threads in which functions that do not wait are called: as many as there is work for, never more than are allowed.

`ThreadPoolExecutor` makes a future with a lock for each call, which is a quarter of what a no-op costs here; nobody
waits for these calls, who end by telling of themselves. A `SimpleQueue` wakes idle threads in turn: for each frame of
no-ops five were woken and waited for the lock of the interpreter, though one of them did all the work.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")
Later = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds, in the thread that asks for it."""

GLANCE = 0.001
"""Seconds between two looks at what waits for a thread: it may wait for twice as long. To begin one takes about ten
times as long as a no-op."""


class Threads(Generic[_T]):
    """Calls `act`, which raises nothing, with each thing that it is given. All methods belong to one thread."""

    def __init__(self, most: int, act: Callable[[_T], None], later: Later) -> None:
        self._most = most
        self._act = act
        self._later = later
        self._given = deque[_T]()
        self._idle: list[threading.Lock] = []
        """What threads without work wait for. Who came last is woken first: most others need not be woken at all."""
        self._begun = 0
        self._number = 0
        """How many things were given so far."""
        self._unseen = False
        """One came while nothing waited: it gets a thread with the next `set_going`."""
        self._looked_at: int | None = None
        """How many had been given when the next look was asked for; None: none is asked for."""
        self._closed = False

    def give(self, thing: _T) -> None:
        """Call `act` with it, for which `set_going` is called behind the last one of those that come together.

        Raises `RuntimeError` where the machine gives no thread, and none is there.
        """
        self._unseen = self._unseen or (bool(self._begun) and not self._given)
        self._given.append(thing)
        if not self._begun:
            try:
                self._begin_one()
            except RuntimeError:
                self._given.pop()
                raise
        self._number += 1

    def set_going(self, in_hand: int) -> None:
        """Wake or begin a thread for the first thing, if nothing waited before it; `in_hand` are what has not ended.

        Of many that come together only those get another one that still wait a moment later: most take no longer.
        Where the machine gives none it waits for one of those that there are.
        """
        waiting, served = len(self._given), False
        if waiting and self._unseen:
            served = self._wake()
            if not served and self._begun < min(in_hand, self._most):
                self._begin_one()
                served = True
        self._unseen = False
        if waiting > served and self._looked_at is None:  # also where a thread is on its way to it: it may be held up
            self._look_later()

    def close(self) -> None:
        """Let each end when it has done what it was given. One that never does keeps nobody waiting.

        None is begun any more: what still waits has lost its node.
        """
        self._most = self._begun
        self._closed = True
        while self._wake():
            pass

    def begin_missing(self) -> None:
        """Wake or begin a thread for each thing that waits for one."""
        self._unseen = False
        self._spare(len(self._given))

    def _look_later(self) -> None:
        self._looked_at = self._number
        self._later(GLANCE, self._look)

    def _look(self) -> None:
        """Only what waited at the last look has waited for long: what came since may be done in a moment."""
        seen, self._looked_at = self._looked_at or 0, None
        taken = self._number - len(self._given)
        self._spare(seen - taken)
        if self._number > seen and self._given:
            self._look_later()

    def _spare(self, things: int) -> None:
        for _ in range(things):
            if not self._wake():
                if self._begun >= self._most:
                    return
                self._begin_one()

    def _wake(self) -> bool:
        """Wake a thread that waits; whether any does. Called in any thread."""
        try:
            self._idle.pop().release()
        except IndexError:
            return False
        return True

    def _begin_one(self) -> None:
        try:
            threading.Thread(target=self._work, name=f"tokimori_{self._begun + 1}", daemon=True).start()
            self._begun += 1
        except RuntimeError:
            if not self._begun:
                raise

    def _work(self) -> None:
        mine = threading.Lock()
        mine.acquire()
        while True:
            try:
                thing = self._given.popleft()
            except IndexError:
                if self._closed:
                    return
                self._idle.append(mine)
                if self._given or self._closed:  # it came while nobody could be seen to wait
                    self._wake()
                mine.acquire()
            else:
                self._act(thing)
                del thing
