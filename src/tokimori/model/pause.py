"""Pauses: nothing of a paused queue is claimed until somebody resumes it."""

from collections.abc import Collection

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.ids import Lane

EVERYTHING = "*"
"""In place of a queue: all of them. No queue has this name."""


class Pause(Struct, frozen=True, kw_only=True):
    """Stop of claims from a queue, or from all (`EVERYTHING`): since when, by whom and why."""

    queue: str
    since: Moment
    reason: str | None = None
    by: str | None = None


def queue_of(lane: Lane) -> str:
    """Return the queue to which a lane belongs."""
    return lane.partition("|")[0]


def open_lanes(lanes: Collection[Lane], paused: Collection[str]) -> tuple[Lane, ...]:
    """Return the lanes that are not paused by these queues."""
    if EVERYTHING in paused:
        return ()
    return tuple(lane for lane in lanes if queue_of(lane) not in paused) if paused else tuple(lanes)
