"""Threads in which functions that do not wait are called: as many as there is work for, never more than are allowed.

`ThreadPoolExecutor` makes a future with a lock for each call, which is a quarter of what a no-op costs here; nobody
waits for these calls, who end by telling of themselves. A `SimpleQueue` wakes idle threads in turn: for each frame of
no-ops five were woken and waited for the lock of the interpreter, though one of them did all the work. And of threads
that burn CPU most only wait for each other: these rest (`contention.py`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tokimori.apps.contention import Contention, Use

_T = TypeVar("_T")
Later = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds, in the thread that asks for it."""

GLANCE = 0.001
"""Seconds between two looks at what waits for a thread: it may wait for twice as long. To begin one takes about ten
times as long as a no-op."""
LONG_GLANCE = 0.05
"""Seconds between two looks while more threads would only wait for each other, or all of them are at something."""
SHORTEST = 0.005
"""Seconds for which threads must have been seen: so long the interpreter lets one have its lock."""


class Clocks(Protocol):
    """Clocks of time and of used CPU (seconds)."""

    def now(self) -> float:
        """Return the time of a clock that goes on evenly."""

    def cpu(self) -> float:
        """Return what all threads of the process have used."""

    def of_this_thread(self) -> Callable[[], float]:
        """Return a clock of the CPU that the calling thread has used, for any thread."""


class SystemClocks:
    """Clocks of this machine."""

    def now(self) -> float:
        """See `Clocks`."""
        return time.monotonic()

    def cpu(self) -> float:
        """See `Clocks`."""
        return time.process_time()

    def of_this_thread(self) -> Callable[[], float]:
        """See `Clocks`."""
        clock = time.pthread_getcpuclockid(threading.get_ident())
        return lambda: time.clock_gettime(clock)


class _Thread:
    """A thread's wake-up, and its work."""

    def __init__(self) -> None:
        self.woken = threading.Lock()
        self.woken.acquire()
        self.goes = True
        """It does not wait to be woken."""
        self.rests = False
        """It shall take nothing more until it is woken, or is told otherwise."""
        self.taken = self._taken_before = 0
        self.cpu: Callable[[], float] = float
        self._cpu_before = 0.0

    def used(self) -> Use:
        """Return its work since the last call."""
        cpu, taken = self.cpu(), self.taken
        use = Use(cpu - self._cpu_before, took=taken > self._taken_before)
        self._cpu_before, self._taken_before = cpu, taken
        return use


class Threads(Generic[_T]):
    """Calls `act`, which raises nothing, with each thing that it is given. All public methods belong to one thread."""

    def __init__(self, most: int, act: Callable[[_T], None], later: Later, clocks: Clocks | None = None) -> None:
        self._most = most
        self._act = act
        self._later = later
        self._clocks = clocks or SystemClocks()
        self._given = deque[_T]()
        self._begun: list[_Thread] = []
        self._idle: list[_Thread] = []
        """Who came last is woken first: most others need not be woken at all."""
        self._number = 0
        """How many things were given so far."""
        self._unseen = False
        """One came while nothing waited: it gets a thread with the next `set_going`."""
        self._looked_at: int | None = None
        """How many had been given when the next look was asked for; None: none is asked for."""
        self._contention = Contention()
        self._since = 0.0, 0.0
        """From when on it is seen how much CPU is used, and how much was used by then."""
        self._none_rests = False
        """No look may come for long."""
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
            served = self._wake() or (len(self._begun) < min(in_hand, self._most) and self._begin_one())
        self._unseen = self._none_rests = False
        if waiting > served:  # also where one is on its way to it, which may be held up
            self._ask_for_a_look()

    def close(self) -> None:
        """Let each end when it has done what it was given. One that never does keeps nobody waiting.

        None is begun any more: what still waits has lost its node.
        """
        self._most = len(self._begun)
        self._closed = True
        while self._wake():
            pass

    def begin_missing(self) -> None:
        """Wake or begin a thread for each thing that waits for one; until the next `set_going` none rests."""
        self._unseen, self._none_rests = False, True
        for thread in self._begun:
            thread.rests = False
        self._spare(len(self._given))
        if self._given:
            self._ask_for_a_look()

    # Looks

    def _ask_for_a_look(self) -> None:
        if self._looked_at is None and not self._closed:
            self._since = self._clocks.now(), self._clocks.cpu()
            self._look_after(self._since[0])

    def _look_after(self, now: float) -> None:
        more = self._idle or len(self._begun) < self._most
        soon = more and not self._contention.lately(now)
        self._later(GLANCE if soon else LONG_GLANCE, self._look)
        self._looked_at = self._number

    def _look(self) -> None:
        """Only what waited at the last look has waited for long: what came since may be done in a moment.

        But a thread that `Contention` advises to wake is woken for what came since, too.
        """
        seen, self._looked_at = self._looked_at or 0, None
        if self._given and not self._closed:
            now = self._clocks.now()
            wake = self._advised(now)
            waiting = seen - (self._number - len(self._given))
            self._spare(waiting if wake is None else min(wake, len(self._given)))
            self._look_after(now)

    def _advised(self, now: float) -> int | None:
        """Return how many to wake (None: as many as can be), when some were told to rest."""
        cpu, (since, before) = self._clocks.cpu(), self._since
        if self._none_rests or now - since < SHORTEST:
            return None
        self._since = now, cpu
        used = [(thread, thread.used()) for thread in self._begun]
        going = [(thread, use) for thread, use in used if thread.goes]
        passed, own = now - since, sum(use.cpu for _, use in used)
        advice = self._contention.advise((cpu - before) / passed, own / passed, [use for _, use in going], now)
        for number, (thread, _) in enumerate(going):
            thread.rests = number in advice.rest
        return advice.wake

    def _spare(self, things: int) -> None:
        for _ in range(things):
            if not self._wake() and (len(self._begun) >= self._most or not self._begin_one()):
                return

    def _wake(self) -> bool:
        """Wake a thread that waits; whether any does. Called in any thread."""
        try:
            thread = self._idle.pop()
        except IndexError:
            return False
        thread.rests, thread.goes = False, True
        thread.woken.release()
        return True

    # Threads

    def _begin_one(self) -> bool:
        """Begin a thread; return whether the machine gives one. Raises `RuntimeError` if it does not, and there is
        none.
        """
        thread = _Thread()
        name = f"tokimori_{len(self._begun) + 1}"
        try:
            threading.Thread(target=self._work, args=(thread,), name=name, daemon=True).start()
        except RuntimeError:
            if not self._begun:
                raise
            return False
        self._begun.append(thread)
        return True

    def _work(self, thread: _Thread) -> None:
        thread.cpu = self._clocks.of_this_thread()
        try:
            self._work_on(thread)
        finally:
            thread.cpu, thread.goes = float, False  # its clock ends with it

    def _work_on(self, thread: _Thread) -> None:
        while True:
            if thread.rests:
                self._wait(thread)
            try:
                thing = self._given.popleft()
            except IndexError:
                if self._closed:
                    return
                self._wait(thread)
            else:
                thread.taken += 1
                self._act(thing)
                del thing

    def _wait(self, thread: _Thread) -> None:
        """Until it is woken. Something may have come, or rest be over, while it could not be seen to wait."""
        thread.goes = False
        self._idle.append(thread)
        if self._closed or (self._given and not thread.rests):
            self._wake()
        thread.woken.acquire()
