"""Backoff: how long a node waits before it starts another worker process, where those before came to nothing. Pure.

All times are seconds since boot.
"""

from math import inf

from tokimori.model.suspicion import ALIVE_AND_WELL, pause_after


class Backoff:
    """How often in a row an app could not be loaded, or a process died soon after its start without any work.

    What began together fails together: of all that had begun at a failure none counts once more.
    """

    def __init__(self) -> None:
        self._not_loaded = self._died_idle = 0
        self._failed_at = -inf

    @property
    def pause(self) -> float:
        """Seconds before the next one; none after a single failure."""
        return pause_after(max(self._not_loaded, self._died_idle))

    def failed(self, began: float, at: float) -> bool:
        """A process could not load its app; whether that is the first failure in a row."""
        self._not_loaded += self._counts(began, at)
        return self._not_loaded == 1 and at == self._failed_at

    def loaded(self) -> None:
        """One could. It may still die of what its app has begun."""
        self._not_loaded = 0

    def died_idle(self, began: float, at: float) -> None:
        """One died that had said hello, but was not given anything, and had not ended anything."""
        if at - began >= ALIVE_AND_WELL:
            self._died_idle = 0
        else:
            self._died_idle += self._counts(began, at)

    def worked(self) -> None:
        """One has ended a run."""
        self._died_idle = 0

    def _counts(self, began: float, at: float) -> bool:
        counts = began >= self._failed_at
        if counts:
            self._failed_at = at
        return counts
