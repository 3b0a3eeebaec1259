"""Backoff: how long a node waits before it starts another worker process, where those before came to nothing. Pure.

All times are seconds since boot.
"""

from math import inf

from tokimori.model.suspicion import ALIVE_AND_WELL, pause_after


class Backoff:
    """Number of times in a row that an app could not be loaded, or a process died idle soon after its start.

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
        """Return a process could not load its app; whether that is the first failure in a row."""
        self._not_loaded += self._counts(began, at)
        return self._not_loaded == 1 and at == self._failed_at

    def loaded(self) -> None:
        """Note that a process could load the app. It may still die of what its app has begun."""
        self._not_loaded = 0

    def died_idle(self, began: float, at: float) -> None:
        """Note the death of a process that had said hello, but had neither been given nor ended anything."""
        if at - began >= ALIVE_AND_WELL:
            self._died_idle = 0
        else:
            self._died_idle += self._counts(began, at)

    def worked(self) -> None:
        """Note that a process has ended a run."""
        self._died_idle = 0

    def _counts(self, began: float, at: float) -> bool:
        counts = began >= self._failed_at
        if counts:
            self._failed_at = at
        return counts
