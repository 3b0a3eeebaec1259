"""Membership of a node: its beats, its lease, the store's time, and the peers that it has seen alive."""

import logging
from collections.abc import Collection
from functools import lru_cache
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from tokimori.clock import Clock, Moment
from tokimori.engine.refusals import log_refusal, refuses_for_good
from tokimori.engine.trim import StreamRetention
from tokimori.model.ids import Lane, NodeId, RandomBytes, uuid7
from tokimori.model.lanes import (
    DRAINING_LABEL,
    HANDLERS_LABEL,
    ONLY_LABEL,
    SHORT_LABEL,
    SILENT_LABEL,
    UNABLE_LABEL,
    handler_of,
    serves,
)
from tokimori.model.lease import (
    LATE_TICK,
    TICK_BUSY,
    TICK_IDLE,
    Lease,
    Timeline,
    Watch,
    follow,
    next_overdue,
    observe,
    overdue,
)
from tokimori.model.target import Handler, handlers_text
from tokimori.ports.nodes import Beat, NodeRecord, NodeState, Pulse, StartedRun
from tokimori.ports.work_source import WorkSource

MOST_WORDS = 200
"""Characters that others see of why a node can start no function, or no run."""


class Identity(Struct, frozen=True, kw_only=True):
    """Identity of a node. `handlers`: its handlers, by name or by a pattern of whole names.

    `only_handlers`: it claims only runs for these. `unable`: why it can start none of them now; empty: it can. `short`:
    what its machine lacks to begin any run; empty: nothing. `draining`: its drained worker processes, each with its run
    and its end. `silent`: those that do not answer, each with its runs and its start. Above the load `max_load` it
    claims nothing (None: no cap). `audit_kept`: the days after which it deletes entries of the audit log; 0: never.
    `messages`: when it deletes messages of channels.
    """

    host: str
    boot_id: str
    pid: int
    version: str
    labels: dict[str, str] = field(default_factory=dict)
    handlers: tuple[Handler, ...] = ()
    only_handlers: bool = False
    unable: str = ""
    draining: str = ""
    short: str = ""
    silent: str = ""
    concurrency: int = 32
    max_load: float | None = None
    stop_grace: float = 30.0
    audit_kept: int = 0
    messages: StreamRetention = StreamRetention()

    @property
    def blocking(self) -> list[str]:
        """Return the runs that block each worker process which does not answer."""
        return [each.split(" ")[1] for each in filter(None, self.silent.split("; "))]

    def serves(self, lane: Lane) -> bool:
        """Return whether this node may run what waits in the lane."""
        return serves(self.labels, lane, self.handlers) and not (self.only_handlers and handler_of(lane) == "")

    def record(self, node_id: NodeId, started: Moment) -> NodeRecord:
        """Return the row with which it joins the store."""
        labels = {HANDLERS_LABEL: handlers_text(self.handlers)} if self.handlers else {}
        labels |= {ONLY_LABEL: "yes"} if self.only_handlers else {}
        labels |= {DRAINING_LABEL: self.draining} if self.draining else {}
        labels |= {SILENT_LABEL: self.silent} if self.silent else {}
        labels |= {UNABLE_LABEL: _first_line(self.unable)} if self.unable else {}
        labels |= {SHORT_LABEL: _first_line(self.short)} if self.short else {}
        return NodeRecord(
            id=node_id,
            host=self.host,
            boot_id=self.boot_id,
            pid=self.pid,
            labels={**self.labels, **labels},
            concurrency=self.concurrency,
            version=self.version,
            started=started,
            state=NodeState.ALIVE,
        )


def _first_line(why: str) -> str:
    return why.partition("\n")[0][:MOST_WORDS]


log = logging.getLogger(__name__)

MOST_LANES = 10_000
"""Lanes of which the answer of `serves` is remembered: for a thousand lanes and functions it took 40 ms."""
_DOUBTS = "disagree by over 5 s: nothing is decided until they agree three times in a row"


class BeatAnswer(NamedTuple):
    """Answer to a beat, the time at which that was sent (monotonic seconds), and nodes to declare dead, by counter.

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
        """Claim by this identity from now on. A duty reports it to the store, `next_at` when it is due."""
        self.identity = identity
        self.serves = lru_cache(maxsize=MOST_LANES)(identity.serves)  # each claim asks it of all
        self.next_at = self._clock.monotonic()

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """Report the node's new identity to the store. Until then others see the old one."""
        self.next_at = inf
        try:
            await self.register()
        except Exception as fault:
            if refuses_for_good(fault):
                log_refusal(log, f"the store refused to note what this node can run now: {fault}", fault)
            else:
                self.next_at = at + TICK_IDLE
        return False

    @property
    def now(self) -> Moment:
        """Return the corrected time."""
        return self._timeline.now(self._clock.monotonic())

    @property
    def knows_time(self) -> bool:
        """Return if this process knows the time of the store: until then `now` is that of this machine."""
        return self._timeline.leapt is not None

    @property
    def trusts_its_time(self) -> bool:
        """Return whether occurrences may be decided by its time."""
        return self._timeline.trusted

    def steady(self, at: float) -> float:
        """Return for how many seconds, up to this one, the store's time has run as the monotonic clock does."""
        return at - self._timeline.since

    @property
    def ahead(self) -> int:
        """Return by how many microseconds the store's clock may be ahead, as it has leapt lately."""
        return self._timeline.ahead(self._clock.monotonic())

    @property
    def has_lease(self) -> bool:
        """Return if the store has answered a beat lately: else the node begins nothing."""
        return self._lease.holds(self._clock.monotonic())

    @property
    def lease_left(self) -> float:
        """Return the seconds until then, at least 0."""
        return self._lease.left(self._clock.monotonic())

    @property
    def peers(self) -> Collection[NodeId]:
        """Return the other living nodes."""
        return self._watch.peers.keys()

    async def register(self) -> None:
        """Join the store, or report a changed identity."""
        await self._source.register(self.identity.record(self.id, self._clock.now()))

    async def tick(self, started: tuple[StartedRun, ...], *, busy: bool) -> BeatAnswer | None:
        """Beat, and report the processes that `started`. None: the store has declared this node dead.

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
        """Beat. If the store refuses to note a process, it only says that it lives: ends report processes again."""
        try:
            return await self._source.tick(Beat(node=self.id, started=started), self.now)
        except Exception as fault:
            if not started or not refuses_for_good(fault):
                raise
            log_refusal(log, f"the store refused to note which of {len(started)} processes began: {fault}", fault)
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
