"""Stop of a node: the request, and how far it has come."""

from enum import Enum
from math import inf

from tokimori.clock import Clock

FAREWELL = 5.0
"""Seconds for which a node with nothing left to do tries to reach a store that is away."""


class Phase(Enum):
    """Phases of a stop: claim no more, then release runs, at last wait for no store."""

    WORKING = "working"
    DRAINING = "draining"
    RELEASING = "releasing"
    LEAVING = "leaving"


class Stopping:
    """The phase of a node. `grace`: the seconds that its runs get to finish."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self.phase = Phase.WORKING
        self.drained = False
        """If it takes no new runs, though it does not stop."""
        self.release_at = inf
        """When (monotonic seconds) the grace of a node that drains is over."""
        self._idle_since: float | None = None
        self._asked_at = inf

    @property
    def working(self) -> bool:
        """Return if the node was not asked to stop."""
        return self.phase is Phase.WORKING

    def ask(self) -> str:
        """Go on to the next phase; return its meaning, for people."""
        match self.phase:
            case Phase.WORKING:
                self.phase = Phase.DRAINING
                self._asked_at = self._clock.monotonic()
                self.release_at = self._clock.monotonic() + self._grace
                return f"The node stops: its runs get {self._grace:g} s to finish. Ask again to release them at once."
            case Phase.DRAINING:
                self._release()
                return "The node stops now: it ends its runs and releases them; any node may start them."
            case Phase.RELEASING | Phase.LEAVING:
                self.phase = Phase.LEAVING
                return "The node stops at once: it kills its runs. Other nodes will take over what has no saved result."

    def drains(self, seconds: float) -> bool:
        """Return if it was asked to stop once, and less than so many seconds ago."""
        return self.phase is Phase.DRAINING and self._clock.monotonic() < self._asked_at + seconds

    def grace_is_over(self) -> bool:
        """Return if the grace ends now; then the runs that are left are released."""
        over = self._clock.monotonic() >= self.release_at
        if over:
            self._release()
        return over

    def gives_up(self, *, idle: bool) -> bool:
        """Return if a stopping node leaves without the store, which has just failed once more.

        If nothing is left to report (`idle`), it leaves after `FAREWELL` seconds, else so long after the grace.
        """
        if self.working:
            return False
        at = self._clock.monotonic()
        if not idle and self.phase is Phase.DRAINING:
            self._idle_since = None
        if self._idle_since is None and (idle or self.phase is not Phase.DRAINING):
            self._idle_since = at
        if self._idle_since is None or at < self._idle_since + FAREWELL:
            return False
        self.phase = Phase.LEAVING
        return True

    def _release(self) -> None:
        self.phase = Phase.RELEASING
        self.release_at = inf
