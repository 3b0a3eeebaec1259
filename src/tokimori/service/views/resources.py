"""Queues, semaphores and sets as JSON."""

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


class Holder(Outside, frozen=True, kw_only=True):
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
    holders: tuple[Holder, ...]
    rate: str | None
    taken: int | None
    goes_on: datetime | None


class SetState(Outside, frozen=True, kw_only=True):
    """A set: its state (`whole`, `at_work`, `half_applied`), its version, its jobs, who applied it last, and when."""

    name: str
    state: str
    version: int
    jobs: int
    by: str | None
    begun: datetime | None
