"""Builds of tasks, as whoever runs them asks for them."""

from collections.abc import Sequence
from typing import Protocol


class Builds(Protocol):
    """Gives the pieces of builds, which nobody has checked: `tokimori.model.build.content_of` does."""

    async def pieces(self, task: str, digest: str) -> Sequence[str]:
        """Return all pieces of a build of a task, in order. Raises `NotFound` where there is none, and `StoreError`."""
        ...
