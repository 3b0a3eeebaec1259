"""A node among the others: its lease, its time, and whom it has seen alive."""

import logging
from collections.abc import Collection
from functools import lru_cache
from math import inf
from typing import NamedTuple

from tokimori.clock import Clock, Moment
from tokimori.engine.refusals import refuses_for_good, tell
from tokimori.model.ids import NodeId, RandomBytes, uuid7
from tokimori.model.lease import TICK_BUSY, TICK_IDLE, Lease
from tokimori.model.timeline import Timeline, follow
from tokimori.model.watch import LATE_TICK, Watch, next_overdue, observe, overdue
from tokimori.node.identity import Identity
from tokimori.ports.nodes import Beat, Pulse, StartedRun
from tokimori.ports.work_source import WorkSource

log = logging.getLogger(__name__)

MOST_LANES = 10_000
"""Of so many lanes it is remembered whether they are served: of a thousand, for as many functions, it took 40 ms."""
_DOUBTS = "disagree by over 5 s: nothing is decided until they agree three times in a row"


class BeatAnswer(NamedTuple):
    """The answer to a beat, when that was sent (monotonic seconds), and whom to declare dead, at which counter.

    `unbroken`: neither it nor the one before it failed or came late.
    """

    pulse: Pulse
    sent: float
    overdue: list[tuple[NodeId, int]]
    unbroken: bool


class Membership:
    """One life of a node, under an id of its own. `tick_at`: when (monotonic seconds) it is to beat next."""

    def __init__(self, source: WorkSource, identity: Identity, clock: Clock, random: RandomBytes) -> None:
        now, at = clock.now(), clock.monotonic()
        self._source = source
        self._clock = clock
        self.id = NodeId(uuid7(now, random))
        self.tick_at = at
        self._lease = Lease(at)
        self._timeline = Timeline(now, at, since=at)
        self._watch = Watch()
        self._unbroken = False
        self.become(identity)
        self.next_at = inf

    def become(self, identity: Identity) -> None:
        """Claim by what this one serves. To tell the store so is a duty, `next_at` when it is due."""
        self.identity = identity
        self.serves = lru_cache(maxsize=MOST_LANES)(identity.serves)  # each claim asks it of all
        self.next_at = self._clock.monotonic()

    def hear(self, pulse: Pulse) -> None:
        """See `Duty`."""

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """Tell the store what this node is now. Until it has heard that, others are shown what it was before."""
        self.next_at = inf
        try:
            await self.register()
        except Exception as fault:
            if refuses_for_good(fault):
                tell(log, f"the store refused to note what this node can run now: {fault}", fault)
            else:
                self.next_at = at + TICK_IDLE
        return False

    @property
    def now(self) -> Moment:
        """Return the corrected time."""
        return self._timeline.now(self._clock.monotonic())

    @property
    def trusts_its_time(self) -> bool:
        """Return whether occurrences may be decided by its time."""
        return self._timeline.trusted

    def steady(self, at: float) -> float:
        """For how many seconds, up to this one, the store's time has run as this machine's monotonic clock does."""
        return at - self._timeline.since

    @property
    def has_lease(self) -> bool:
        """Return whether the store has answered a beat lately: else the node begins nothing."""
        return self._lease.holds(self._clock.monotonic())

    @property
    def lease_left(self) -> float:
        """Return the seconds until then, at least 0."""
        return self._lease.left(self._clock.monotonic())

    @property
    def peers(self) -> Collection[NodeId]:
        """Return the other nodes that live."""
        return self._watch.peers.keys()

    async def register(self) -> None:
        """Join the store, or tell it what has changed."""
        await self._source.register(self.identity.record(self.id, self._clock.now()))

    async def tick(self, started: tuple[StartedRun, ...], *, busy: bool) -> BeatAnswer | None:
        """Beat, and tell of what `started`. None: the store has declared this node dead.

        Late and failed ticks break the watch over the others. A `busy` node beats again sooner.
        """
        sent = self._clock.monotonic()
        on_time = sent - self.tick_at <= LATE_TICK
        unbroken, self._unbroken = self._unbroken and on_time, False
        pulse = await self._beat(started)
        if pulse is None:
            return None
        at = self._clock.monotonic()
        self.tick_at = sent + (TICK_BUSY if busy else TICK_IDLE)
        self._unbroken = at - sent <= LATE_TICK
        unbroken = unbroken and self._unbroken
        self._lease = Lease(sent)
        trusted = self._timeline.trusted
        self._timeline = follow(self._timeline, pulse.now, sent, at)
        if trusted != self._timeline.trusted:
            log.warning("the clock of the store and that of this node %s", _DOUBTS if trusted else "agree again")
        self._watch = observe(self._watch, pulse.peers, at, unbroken=unbroken)
        return BeatAnswer(pulse, sent, overdue(self._watch, at), unbroken)

    async def _beat(self, started: tuple[StartedRun, ...]) -> Pulse | None:
        """Beat. If the store refuses to note a process, the node only says that it lives: ends report processes
        again.
        """
        try:
            return await self._source.tick(Beat(node=self.id, started=started), self.now)
        except Exception as fault:
            if not started or not refuses_for_good(fault):
                raise
            tell(log, f"the store refused to note which of {len(started)} processes began: {fault}", fault)
        return await self._source.tick(Beat(node=self.id), self.now)

    def tick_soon(self) -> None:
        """Beat as often as a busy node does from now on."""
        self.tick_at = min(self.tick_at, max(self._clock.monotonic(), self._lease.sent + TICK_BUSY))

    def next_tick(self, at: float) -> float:
        """Return when to beat next: at the latest when a silent node may be declared dead."""
        overdue_at = next_overdue(self._watch)
        if overdue_at is not None and overdue_at > at:
            self.tick_at = min(self.tick_at, overdue_at)
        return self.tick_at
