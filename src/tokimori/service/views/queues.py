"""Queues and their pauses as JSON."""

from datetime import datetime

from tokimori.service.views.outside import Outside


class Pause(Outside, frozen=True, kw_only=True):
    """A pause of a queue, or (`*`) of everything: no run of it starts."""

    queue: str
    since: datetime
    reason: str | None
    by: str | None


class Queue(Outside, frozen=True, kw_only=True):
    """A queue, the number of its jobs, and the pauses that apply to it: its own, and that of everything.

    `taken` of its runs count for its `rate` now.
    """

    name: str
    jobs: int
    pauses: tuple[Pause, ...]
    rate: str | None
    taken: int | None
