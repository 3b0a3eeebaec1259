"""Stop of a node: the signals and requests for it, and its progress."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


log = logging.getLogger(__name__)

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that stop a node: at the first it drains, at the second it releases its runs."""
NOTED = {
    signal.SIGHUP: "HUP changes nothing: settings are read at the start; stop the node with TERM and start it again",
    signal.SIGUSR1: "USR1 changes nothing",
    signal.SIGUSR2: "USR2: the log goes on in the file that is there now",
}
"""Other signals, and the line that is logged. A log file that was moved is made anew with its next line."""


RELOADS = (signal.SIGHUP, signal.SIGUSR1)
"""Signals that make a node with an app run new code."""


def note_signals() -> None:
    """Log these signals from now on, until the loop ends."""
    loop = asyncio.get_running_loop()
    for number, text in NOTED.items():
        loop.add_signal_handler(number, log.warning, text)


def reload_by_signals(reload: Callable[[], None]) -> None:
    """Call `reload` at each of its signals from now on, until the loop ends."""
    loop = asyncio.get_running_loop()
    for number in RELOADS:
        loop.add_signal_handler(number, _reload, number.name.removeprefix("SIG"), reload)


def _reload(name: str, reload: Callable[[], None]) -> None:
    log.warning("%s: new worker processes with the new code take over; the old ones finish their runs", name)
    reload()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at each signal that stops a node, while this lasts."""
    loop = asyncio.get_running_loop()
    for number in STOPS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in STOPS:
            loop.remove_signal_handler(number)
