"""Threads in which functions that do not wait are called: as many as there is work for, never more than are allowed.

`ThreadPoolExecutor` makes a future with a lock for each call, which is a quarter of what a no-op costs here; nobody
waits for these calls, who end by telling of themselves.

To wake a thread costs more than a no-op, and each that is awake waits for the interpreter's lock. So one at a time is
on its way, and whoever begins to act calls the next one if there is more to do: short calls are made by one or two
threads, and one that waits for something holds up nobody.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Threads(Generic[_T]):
    """Calls `act`, which raises nothing, with each thing that it is given.

    `say` is called in a thread that may have no time for a while: one that waits for more, or that begins to act while
    no other thread is on its way. What several acts have to tell is told together there.
    """

    def __init__(self, most: int, act: Callable[[_T], None], say: Callable[[], None] = lambda: None) -> None:
        self._most = most
        self._act = act
        self._say = say
        self._lock = threading.Lock()
        self._given: deque[_T] = deque()
        self._idle: list[threading.Lock] = []
        self._begun = 0
        self._is_coming = False
        self._closed = False

    def give(self, thing: _T, busy: int) -> None:
        """Call `act` with it, while `busy` others may be in hand: a thread is begun where each has one of these."""
        with self._lock:
            self._given.append(thing)
            if not self._is_coming:
                self._call_another(busy)

    def close(self) -> None:
        """Let each end when all that was given is done. One that never does keeps nobody waiting."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().release()

    def _call_another(self, busy: int) -> None:
        """Let a thread come that takes what was given. Where none can be begun the others have to do."""
        if self._idle:
            self._is_coming = True
            self._idle.pop().release()
        elif self._begun <= busy and self._begun < self._most:
            thread = threading.Thread(target=self._work, name=f"tokimori_{self._begun + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                if not self._begun:
                    raise
            else:
                self._is_coming = True
                self._begun += 1

    def _work(self) -> None:
        called = threading.Lock()
        called.acquire()
        while True:
            self._act_on_all(called)
            self._say()
            if self._closed:
                break
            called.acquire()  # which is when somebody releases it

    def _act_on_all(self, called: threading.Lock) -> None:
        """Take one after the other until nothing is left."""
        with self._lock:
            self._is_coming = False
        while True:
            with self._lock:
                if not self._given:
                    self._idle.append(called)
                    return
                thing = self._given.popleft()
                if self._given and not self._is_coming:
                    self._call_another(self._most)
                is_alone = not self._is_coming
            if is_alone:
                self._say()
            self._act(thing)
