"""Watch over other nodes: a node is dead if its beat counter stays the same for long enough. No wall clocks, no I/O.

DESIGN §3: the observer's own monotonic clock counts, and only while its access to the store was unbroken.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from tokimori.model.ids import NodeId
from tokimori.model.lease import DEAD_AFTER

LATE_TICK = 1.0
"""Seconds by which an observer's own tick may be late before its windows start again."""


class PeerSeen(Struct, frozen=True):
    """A counter, and since when (the observer's monotonic seconds) it has been seen unchanged."""

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
