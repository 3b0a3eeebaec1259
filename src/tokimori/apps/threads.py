"""Threads that call functions which are no coroutines: as many as there is work for, up to a limit.

`ThreadPoolExecutor` makes a future with a lock for each call, a quarter of the cost of a no-op here; these calls report
their ends themselves, and need none. A `SimpleQueue` wakes idle threads in turn: each frame of no-ops woke five, which
waited for the lock of the interpreter while one did all the work. Of threads that use much CPU most only wait for each
other: these rest (`Contention`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tokimori.apps.own_process import ThreadTime

LEAST, MOST = 0.6, 1.2
"""Share of a core used by a process whose threads share one lock, if they have no other work than what needs it:
less if the machine is busy, and more only by what works without the lock."""
OWN = 0.3
"""Share of that which its functions use at least: else something else in the process burns CPU, which does not rest."""
FAIR = 0.5
"""Part of an equal share from which a thread counts as burning CPU; all others wait for something else."""
WORSE = 0.75
"""Part of the CPU that all threads used: if fewer threads use less than that, all go on again."""
HOLDS = 0.1, 1.6
"""Seconds until it is tried again with fewer: each time that this was worse twice as long, up to the second number."""
PROBES = 0.25, 1.0
"""Seconds after which one more is tried beside one that burns CPU, as it may work without the lock: each time that this
was in vain twice as long, up to the second number."""
LATELY = 0.2
"""Seconds for which what was seen counts."""


@dataclass(frozen=True, slots=True)
class Use:
    """Work of one thread for a while: CPU used (seconds), and whether it took something new."""

    cpu: float
    took: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """Threads to put to rest, and the number of others to wake; None: all."""

    rest: frozenset[int] = frozenset()
    wake: int | None = None


class Contention:
    """Contention for the interpreter's lock: advice is asked again and again, while something waits for a thread. Pure.

    Sixteen threads that burn CPU get no more done than one of them, and hand on the lock up to 200 times a second. The
    next one is often woken on the core of the last one, while another core idles: that took a tenth of two cores.
    """

    def __init__(self) -> None:
        self._before = 0.0
        """The share of a core that was used before fewer were let go."""
        self._hold = HOLDS[0]
        self._rested_at = self._contended_at = self._asked_at = float("-inf")
        self._hold_until = self._probe_at = 0.0
        self._pause, self._probes = PROBES[0], False
        """Seconds between two probes, and whether the last one is under way."""

    def lately(self, at: float) -> bool:
        """Return whether more threads would only have waited for the lock a moment ago."""
        return at - self._contended_at < LATELY

    def advise(self, share: float, own: float, uses: Sequence[Use], at: float) -> Advice:
        """Return advice, from the share of a core that the process has used, and from each thread's work.

        `own` is the part of it that all threads of functions have used, those that wait for work now included.

        A thread that took nothing is at something long, and can make no room. If none of the others burns CPU one
        more is woken, and one for each thread that uses little: what waits for them may be such, too.
        """
        asked, self._asked_at = at - self._asked_at < LATELY, at
        self._compare(share, at)
        contended = at >= self._hold_until and LEAST <= share <= MOST and own >= OWN * share
        if not (contended and asked):
            self._pause, self._probes = PROBES[0], False
            self._probe_at = min(self._probe_at, at + self._pause)
        if not contended:
            self._contended_at = float("-inf")
            return Advice()
        self._contended_at = at
        if not asked:
            return Advice(wake=1)
        fair = FAIR * sum(use.cpu for use in uses) / max(1, len(uses))
        burning = [number for number, use in enumerate(uses) if use.took and use.cpu >= fair]
        if len(burning) > 1:
            self._pause = min(2 * self._pause, PROBES[1]) if self._probes else self._pause
            self._probe_at, self._probes = at + self._pause, False
            self._before, self._rested_at = share, at
            return Advice(rest=frozenset(burning[1:]), wake=0)
        one_more = not burning or at >= self._probe_at
        if one_more:
            self._probe_at, self._probes = at + self._pause, True
        return Advice(wake=one_more + sum(use.cpu < fair for use in uses))

    def _compare(self, share: float, at: float) -> None:
        """Compare the use of CPU with that before. If fewer threads use less, their work needs more than the lock."""
        if at - self._rested_at < LATELY:
            worse = share < WORSE * self._before
            self._hold_until = at + self._hold if worse else at
            self._hold = min(2 * self._hold, HOLDS[1]) if worse else HOLDS[0]
        self._rested_at = float("-inf")


_T = TypeVar("_T")
Later = Callable[[float, Callable[[], None]], object]
"""Function that calls something after these seconds, in the thread that asks for it."""

GLANCE = 0.001
"""Seconds between two looks at what waits for a thread: it may wait for twice as long. To begin one takes about ten
times as long as a no-op."""
LONG_GLANCE = 0.05
"""Seconds between two looks while more threads would only wait for each other, or all of them are at something."""
SHORTEST = 0.005
"""Seconds for which threads must have been watched: the interpreter lets one hold its lock that long."""


class Clocks(Protocol):
    """Clocks of time and of used CPU (seconds)."""

    def now(self) -> float:
        """Return the time of a steady clock."""

    def cpu(self) -> float:
        """Return the CPU time of all threads of the process."""

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


class WorkThread:
    """A thread's wake-up, and its work. `number` is the kernel's, `time` for what it calls."""

    def __init__(self) -> None:
        self.woken = threading.Lock()
        self.woken.acquire()
        self.goes = True
        """It does not wait to be woken."""
        self.rests = False
        """If it is to take nothing more until it is woken."""
        self.number = 0
        self.time = ThreadTime()
        self.taken = self._taken_before = 0
        self.cpu: Callable[[], float] = float
        self._cpu_before = 0.0

    def used(self) -> Use:
        """Return the thread's work since the last call."""
        cpu, taken = self.cpu(), self.taken
        use = Use(cpu - self._cpu_before, took=taken > self._taken_before)
        self._cpu_before, self._taken_before = cpu, taken
        return use


class Threads(Generic[_T]):
    """Calls `act`, which raises nothing, with each thing that it is given, and the thread that does so.

    All public methods belong to one thread.
    """

    def __init__(
        self, most: int, act: Callable[[_T, WorkThread], None], later: Later, clocks: Clocks | None = None
    ) -> None:
        self._most = most
        self._act = act
        self._later = later
        self._clocks = clocks or SystemClocks()
        self._given = deque[_T]()
        self._begun: list[WorkThread] = []
        self._idle: list[WorkThread] = []
        """Idle threads. The last one is woken first: most others need not be woken at all."""
        self._number = 0
        """Number of items given so far."""
        self._unseen = False
        """If an item came while none waited: the next `ensure_thread` gives it a thread."""
        self._looked_at: int | None = None
        """Number of given items when the next look was planned; None: none is planned."""
        self._contention = Contention()
        self._since = 0.0, 0.0
        """Start of the current measurement of CPU, and the CPU used by then."""
        self._rests_forbidden = False
        """If threads must not rest, as the next look may be far off."""
        self._closed = False

    def give(self, thing: _T) -> None:
        """Add a thing with which a thread calls `act`. `ensure_thread` is to be called after the last one of several.

        Raises `RuntimeError` if the machine gives no thread, and none is there.
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

    def ensure_thread(self, in_hand: int) -> None:
        """Wake or begin a thread for the first item, if none waited before it.

        `in_hand` is the number of unfinished items. Other items get a thread of their own only if they still wait at
        the next look: most end before it. If the machine has no thread left, the item waits for an existing one.
        """
        waiting, served = len(self._given), False
        if waiting and self._unseen:
            served = self._wake() or (len(self._begun) < min(in_hand, self._most) and self._begin_one())
        self._unseen = self._rests_forbidden = False
        if waiting > served:  # also if one is on its way to it, which may be held up
            self._plan_a_look()

    def close(self) -> None:
        """Let each thread end after its item, without waiting for it. Waiting items never begin: their node is gone."""
        self._most = len(self._begun)
        self._closed = True
        while self._wake():
            pass

    def begin_missing(self) -> None:
        """Wake or begin a thread for each waiting item; until the next `ensure_thread` no thread rests."""
        self._unseen, self._rests_forbidden = False, True
        for thread in self._begun:
            thread.rests = False
        self._spare(len(self._given))
        if self._given:
            self._plan_a_look()

    # Looks

    def _plan_a_look(self) -> None:
        if self._looked_at is None and not self._closed:
            self._since = self._clocks.now(), self._clocks.cpu()
            self._look_after(self._since[0])

    def _look_after(self, now: float) -> None:
        more = self._idle or len(self._begun) < self._most
        soon = more and not self._contention.lately(now)
        self._later(GLANCE if soon else LONG_GLANCE, self._begin_threads)
        self._looked_at = self._number

    def _begin_threads(self) -> None:
        """Begin threads for items that waited at the last look already; newer ones may be done in a moment.

        A thread that `Contention` advises to wake is woken for new items, too.
        """
        seen, self._looked_at = self._looked_at or 0, None
        if self._given and not self._closed:
            now = self._clocks.now()
            wake = self._advised(now)
            waiting = seen - (self._number - len(self._given))
            self._spare(waiting if wake is None else min(wake, len(self._given)))
            self._look_after(now)

    def _advised(self, now: float) -> int | None:
        """Return the number of threads to wake (None: all), after some were put to rest."""
        cpu, (since, before) = self._clocks.cpu(), self._since
        if self._rests_forbidden or now - since < SHORTEST:
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
        """Begin a thread; return whether the machine gives one. Raises `RuntimeError` if not, and there is none."""
        thread = WorkThread()
        name = f"tokimori_{len(self._begun) + 1}"
        try:
            threading.Thread(target=self._work, args=(thread,), name=name, daemon=True).start()
        except RuntimeError:
            if not self._begun:
                raise
            return False
        self._begun.append(thread)
        return True

    def _work(self, thread: WorkThread) -> None:
        thread.cpu, thread.number = self._clocks.of_this_thread(), threading.get_native_id()
        try:
            self._work_on(thread)
        finally:
            thread.cpu, thread.goes = float, False  # its clock ends with it

    def _work_on(self, thread: WorkThread) -> None:
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
                self._act(thing, thread)
                del thing

    def _wait(self, thread: WorkThread) -> None:
        """Wait until the thread is woken. An item may have come, or rest be over, just before it began to wait."""
        thread.goes = False
        self._idle.append(thread)
        if self._closed or (self._given and not thread.rests):
            self._wake()
        thread.woken.acquire()
