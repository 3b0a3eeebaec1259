"""Leases: the times, in seconds, after which a node stops work and others declare it dead. Pure.

A node's lease counts from the sending of the last beat that the store answered. Its work has ended before another node
may declare it dead: LEASE < LEASE_KILL < DEAD_AFTER (DESIGN §3).
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import NodeId

TICK_IDLE = 2.0
TICK_BUSY = 0.5
"""Between ticks: sooner while anything runs, because orders to cancel come with them."""
LEASE = 5.0
"""Seconds without a renewal after which a node starts nothing, and sends TERM to lease-bound processes."""
LEASE_KILL = 6.5
"""Seconds without a renewal after which it sends them KILL."""
DEAD_AFTER = 7.0
"""Seconds without a beat, as an observer counts them, after which a node is dead."""


class Lease(Struct, frozen=True):
    """Lease of a node. `sent`: when (monotonic seconds) the last beat that the store answered was sent."""

    sent: float

    def holds(self, at: float) -> bool:
        """Return whether work may begin at this moment."""
        return at - self.sent < LEASE

    def left(self, at: float) -> float:
        """Return for how many seconds from this moment on work may begin."""
        return max(0.0, self.sent + LEASE - at)


DISAGREEMENT = 5 * SECOND
SURE = 3600.0
"""Seconds after a leap of the store's clock for which it may be wrong: nothing expires by it that did not before."""
AGREEING_TICKS = 3
"""Ticks in a row that have to agree after a jump of the store's clock before anything fires."""


class Timeline(Struct, frozen=True):
    """The store's time `base` at the monotonic second `at`; `doubtful` is how many ticks have still to agree.

    `since`: the monotonic second of the last disagreement. `leapt`: by how many microseconds leaps have put it ahead, 0
    if it is not; None before the first tick.
    """

    base: Moment
    at: float
    doubtful: int = 0
    since: float = 0
    leapt: int | None = None

    def now(self, monotonic: float) -> Moment:
        """Return the corrected time."""
        return Moment(self.base + round((monotonic - self.at) * SECOND))

    @property
    def trusted(self) -> bool:
        """Return whether occurrences may be decided by this time."""
        return self.doubtful == 0

    def ahead(self, monotonic: float) -> int:
        """Return by how many microseconds it may be ahead: it has leapt so far within the last hour."""
        return (self.leapt or 0) if monotonic < self.since + SURE else 0


def follow(timeline: Timeline, store_now: Moment, sent: float, received: float) -> Timeline:
    """Return the timeline after a tick, sent and answered at these monotonic seconds, at which the store said
    `store_now`.

    The store read its clock at some moment between the two. As long as that fits, the timeline stays as it is:
    following every reply's delay would let time jitter, and go back. Otherwise it takes the earliest time that fits,
    so that nothing starts early.
    """
    known = timeline.now(received)
    latest = store_now + round((received - sent) * SECOND)
    base, at = (timeline.base, timeline.at) if store_now <= known <= latest else (store_now, received)
    if not store_now - DISAGREEMENT <= known <= latest + DISAGREEMENT:
        leapt = 0 if timeline.leapt is None else max(0, timeline.ahead(received) + store_now - known)
        return Timeline(base, at, AGREEING_TICKS, received, leapt)
    return Timeline(base, at, max(0, timeline.doubtful - 1), timeline.since, timeline.leapt or 0)


LATE_TICK = 1.0
"""Seconds by which an observer's own tick may be late before its windows start again."""


class PeerSeen(Struct, frozen=True):
    """Counter of a peer, and the observer's monotonic second since which it is unchanged."""

    beat: int
    since: float


class Watch(Struct, frozen=True):
    """Observations of one node about the others."""

    peers: Mapping[NodeId, PeerSeen] = field(default_factory=dict)


def observe(watch: Watch, peers: Sequence[tuple[NodeId, int]], at: float, *, unbroken: bool) -> Watch:
    """Note the counters that a tick answered at `at`. `unbroken`: no tick since the last one failed or came late."""
    seen = {}
    for node, beat in peers:
        known = watch.peers.get(node)
        seen[node] = known if known is not None and known.beat == beat and unbroken else PeerSeen(beat, at)
    return Watch(seen)


def overdue(watch: Watch, at: float) -> list[tuple[NodeId, int]]:
    """Return the nodes to declare dead, each with the counter at which it stands."""
    return [(node, seen.beat) for node, seen in watch.peers.items() if at >= seen.since + DEAD_AFTER]


def next_overdue(watch: Watch) -> float | None:
    """Return the time (monotonic seconds) at which the next node is overdue if it stays silent."""
    return min((seen.since + DEAD_AFTER for seen in watch.peers.values()), default=None)
