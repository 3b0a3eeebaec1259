"""Timekeeping without a node: a program that claims decides what is due, and takes over the runs of dead nodes."""

from random import Random
from typing import Protocol

from tokimori.clock import Clock
from tokimori.engine.duty import Stopwatch
from tokimori.engine.fire import FiringStore, Schedules
from tokimori.engine.firing import Firing
from tokimori.engine.lookout import WHENEVER_DUE, Lookout
from tokimori.engine.reap import Reaper, Reaping
from tokimori.engine.rewind import Rewinder
from tokimori.engine.unfinished import refuse_unfinished
from tokimori.locks.membership import Membership
from tokimori.model.ids import RandomBytes
from tokimori.model.lease import TICK_IDLE
from tokimori.ports.documents import Documents
from tokimori.ports.meter import UNMETERED
from tokimori.ports.nodes import Pulse
from tokimori.ports.pruning import Pruning
from tokimori.ports.work_source import WorkSource


class TimekeepingStore(FiringStore, Reaping, Pruning, Documents, WorkSource, Protocol):
    """Questions of keeping time to the store."""


class Timekeeper:
    """Keeper of time for all jobs within a program that is no node. `lookout` knows the work that is due."""

    def __init__(self, store: TimekeepingStore, clock: Clock, random: RandomBytes) -> None:
        self._store = store
        self._clock = clock
        chance = Random(int.from_bytes(random(8))).random  # noqa: S311  jitter, no secret
        timed = Stopwatch(UNMETERED, clock)
        schedules = Schedules()
        self.lookout = Lookout(store, TICK_IDLE, clock.monotonic())
        self._firing = Firing(
            store,
            self.lookout,
            schedules,
            random=random,
            rhythm=WHENEVER_DUE,
            now=clock.now(),
            timed=timed,
            monotonic=clock.monotonic,
        )
        self._reaper = Reaper(store, chance)
        self._since = clock.monotonic()
        self._rewinder = Rewinder(store, self._since, schedules, lambda at: at - self._since, random)
        self._whole = False

    def receive(self, pulse: Pulse) -> None:
        """Receive the store's answer to a beat."""
        self._reaper.receive(pulse)

    async def fire(self, member: Membership) -> bool:
        """Make the due runs. Return whether to look for ready runs. Raises `StoreError`."""
        if not self._whole:
            await refuse_unfinished(self._store)
            self._whole = True
        return await self._firing.step(member.id, member.peers, member.now, trusted=member.trusts_its_time)

    async def reap(self, member: Membership) -> bool:
        """Settle the runs of dead nodes and programs, and reset jobs that are ahead. Return whether there were any.

        Raises `StoreError`.
        """
        at, self._since = self._clock.monotonic(), member.steady_since
        duties = [duty for duty in (self._reaper, self._rewinder) if duty.next_at <= at]
        return any([await duty.step(member.id, member.now, at) for duty in duties])
