"""May this node still work? Its lease counts from when the last successful beat was sent. Pure."""

from dataclasses import dataclass

LEASE = 5.0
"""Seconds after which a node that has not renewed starts nothing and ends what must not be taken over alive."""
TICK_IDLE = 2.0
TICK_BUSY = 0.5
"""Seconds between ticks: sooner while anything runs, because orders to cancel come with them."""


@dataclass(frozen=True, slots=True)
class Lease:
    """`sent`: when (monotonic seconds) the last beat that the store answered was sent."""

    sent: float

    def holds(self, at: float) -> bool:
        """Whether work may begin at this moment."""
        return at - self.sent < LEASE
