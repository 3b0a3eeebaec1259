"""Semaphores as JSON, with who holds them."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.service.semaphores import SemaphoreDetails


class HolderView(Struct, frozen=True, kw_only=True):
    """A holder of units; `run_id` is null for a program."""

    node_id: str
    host: str | None
    pid: int | None
    run_id: str | None
    weight: int
    token: int | None
    since: str


class SemaphoreView(Struct, frozen=True, kw_only=True):
    """A semaphore and its first hundred holders: `used` of `limit` units are held, `waiting` runs and programs wait.

    `taken` units count for its `rate` now; `goes_on` is when the rate lets the first in line go on.
    """

    name: str
    limit: int
    used: int
    waiting: int
    holders: tuple[HolderView, ...]
    rate: str | None = None
    taken: int | None = None
    goes_on: str | None = None


def semaphore_view(details: SemaphoreDetails) -> SemaphoreView:
    """Return the semaphore as JSON shows it."""
    return SemaphoreView(
        name=details.name,
        limit=details.limit,
        used=details.used,
        waiting=details.waiting,
        holders=tuple(
            HolderView(
                node_id=holder.node_id,
                host=holder.host,
                pid=holder.pid,
                run_id=holder.run_id,
                weight=holder.weight,
                token=holder.token,
                since=format_moment(holder.since),
            )
            for holder in details.holders
        ),
        rate=details.rate,
        taken=details.taken,
        goes_on=None if details.goes_on is None else format_moment(details.goes_on),
    )
