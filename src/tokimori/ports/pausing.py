"""What pausing queues asks of the shared database. Every method is one transaction, as in `tokimori.ports.store`."""

from typing import Protocol

from tokimori.model.pause import Pause


class Pausing(Protocol):
    """Which queues are paused, and whether everything is. Jobs and runs know nothing of it: only claims look."""

    async def add_pause(self, pause: Pause) -> Pause:
        """Pause a queue, or everything; what is paused already stays as it is. The pause as it is kept.

        When this returns, nothing of it is claimed any more, and no survey names its lanes.
        """
        ...

    async def delete_pause(self, queue: str) -> None:
        """Let it go on; none of that name is no error."""
        ...

    async def list_pauses(self) -> list[Pause]:
        """All, by queue; everything comes first."""
        ...
