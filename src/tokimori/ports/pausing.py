"""Pauses in the shared database. Every method is one transaction, as in `tokimori.ports.store`."""

from typing import Protocol

from tokimori.model.pause import Pause


class Pausing(Protocol):
    """Pauses of queues and of everything. Jobs and runs do not change: only claims look at pauses."""

    async def add_pause(self, pause: Pause) -> Pause:
        """Pause a queue, or everything. Returns the pause that is kept: the older one where it was paused already.

        When this returns, nothing of the queue is claimed any more, and no survey names its lanes.
        """
        ...

    async def delete_pause(self, queue: str) -> None:
        """End the pause of this queue, or of everything; it is no error if there is none."""
        ...

    async def list_pauses(self) -> list[Pause]:
        """Return all pauses, in order of their queues; the pause of everything comes first."""
        ...
