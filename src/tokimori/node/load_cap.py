"""Load cap: a machine with more load than its owner wants gets no new runs."""

import logging
import os
from collections.abc import Callable

log = logging.getLogger(__name__)


def load_average() -> float:
    """Return how many threads of this machine ran or wanted to, on average over a minute, as `uptime` shows it."""
    return os.getloadavg()[0]


class LoadCap:
    """Load cap of a node: while the load is above `most` it claims no new runs (None: no cap). Its runs go on.

    `read` returns the load. `holds`: if the last look stopped claims.
    """

    def __init__(self, most: float | None = None, read: Callable[[], float] = load_average) -> None:
        self._most = most
        self._read = read
        self.holds = False

    def look(self) -> bool:
        """Return if claims stop now. The beginning and the end are logged."""
        most = self._most
        if most is None:
            return False
        load, held = self._read(), self.holds
        self.holds = load > most
        if self.holds and not held:
            log.warning("no run is claimed until the load average, %.2f, is at most %g (node.max_load)", load, most)
        elif held and not self.holds:
            log.warning("runs are claimed again: the load average is %.2f", load)
        return self.holds
