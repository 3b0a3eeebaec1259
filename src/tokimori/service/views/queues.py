"""Queues and their pauses as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.lanes import Pause
from tokimori.service.queues import Queue


class PauseView(Struct, frozen=True, kw_only=True):
    """A pause of a queue, or (`*`) of everything: no run of it starts."""

    queue: str
    since: str
    reason: str | None
    by: str | None


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue, the number of its jobs, and the pauses that apply to it: its own, and that of everything."""

    name: str
    jobs: int
    pauses: tuple[PauseView, ...]


def pause_view(pause: Pause) -> PauseView:
    """Return the pause as JSON shows it."""
    return PauseView(queue=pause.queue, since=format_moment(pause.since), reason=pause.reason, by=pause.by)


def queue_view(queue: Queue) -> QueueView:
    """Return the queue as JSON shows it."""
    return QueueView(name=queue.name, jobs=queue.jobs, pauses=tuple(map(pause_view, queue.pauses)))
