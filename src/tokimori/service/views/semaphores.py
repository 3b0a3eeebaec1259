"""Semaphores as JSON, with who holds them."""

from datetime import datetime

from tokimori.service.views.outside import Outside


class HolderView(Outside, frozen=True, kw_only=True):
    """A holder of units; `run_id` is null for a program."""

    node_id: str
    host: str | None
    pid: int | None
    run_id: str | None
    weight: int
    token: int | None
    since: datetime


class SemaphoreDetails(Outside, frozen=True, kw_only=True):
    """A semaphore and its first hundred holders: `used` of `limit` units are held, `waiting` runs and programs wait.

    `taken` units count for its `rate` now; `goes_on` is the time at which the rate lets the first in line start.
    """

    name: str
    limit: int
    used: int
    waiting: int
    holders: tuple[HolderView, ...]
    rate: str | None
    taken: int | None
    goes_on: datetime | None
