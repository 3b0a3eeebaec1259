"""The shortage of a machine: a node that lacked processes, files or memory for a run claims nothing for a while."""

import logging
from collections.abc import Iterable
from math import inf

from tokimori.model.outcome import Released
from tokimori.ports.executor import Ended, Report

log = logging.getLogger(__name__)

FIRST, LONGEST = 0.5, 30.0
"""Seconds of a pause: each is twice as long as the one before."""
OVER = 60.0
"""Seconds after a pause in which all could begin: then the next one is the first again."""


class Shortage:
    """Pauses of one node, in monotonic seconds. `why` says what was missing; it is empty while nothing is.

    Within a pause no more runs are begun than have ended.
    """

    def __init__(self) -> None:
        self.why = ""
        self._until = -inf
        self._pause = FIRST
        self._freed = 0

    def hear(self, reports: Iterable[Report], at: float) -> bool:
        """Begin a pause if one of these attempts could not begin; return if that is so. One is under way at a time."""
        found = ""
        for report in reports:
            if type(report) is Ended:
                if type(report.outcome) is Released and report.outcome.short:
                    found = report.outcome.reason
                elif report.started is not None:
                    self._freed += 1
        if found:
            self._freed = 0
        if not found or at < self._until:
            return False
        self._pause = FIRST if at >= self._until + OVER else min(2 * self._pause, LONGEST)
        self._until, self.why = at + self._pause, found
        log.warning("for %g s no more runs are begun than end: %s", self._pause, found)
        return True

    def room(self, at: float) -> float:
        """Return how many runs may be claimed now."""
        return inf if at >= self._until else self._freed

    def took(self, runs: int) -> None:
        """So many were claimed."""
        self._freed = max(0, self._freed - runs)

    def over(self, at: float) -> bool:
        """Return if the last pause has just ended; asked once more it has not."""
        ended = bool(self.why) and at >= self._until
        if ended:
            self.why = ""
            log.info("runs are claimed again")
        return ended
