"""The one set of times by which nodes believe in each other, in seconds, and a node in itself. Pure.

A node's lease counts from when the last beat that the store answered was sent. Its work is over before anybody may
declare it dead: LEASE < LEASE_KILL < DEAD_AFTER (DESIGN §3).
"""

from msgspec import Struct

TICK_IDLE = 2.0
TICK_BUSY = 0.5
"""Between ticks: sooner while anything runs, because orders to cancel come with them."""
LEASE = 5.0
"""After so long without a renewal a node starts nothing, and tells what must not be taken over alive to end (TERM)."""
LEASE_KILL = 6.5
"""And now it kills that (KILL)."""
DEAD_AFTER = 7.0
"""Without a beat for so long, as an observer counts it, a node is dead."""


class Lease(Struct, frozen=True):
    """`sent`: when (monotonic seconds) the last beat that the store answered was sent."""

    sent: float

    def holds(self, at: float) -> bool:
        """Return whether work may begin at this moment."""
        return at - self.sent < LEASE

    def left(self, at: float) -> float:
        """For how many seconds from this moment on work may begin."""
        return max(0.0, self.sent + LEASE - at)
