"""Interface of firing to the store. Every method is one transaction, as in `tokimori.ports.store`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tokimori.clock import Moment
from tokimori.model.decide import Due, Plan
from tokimori.model.ids import Incarnation, RunId
from tokimori.model.job import Job
from tokimori.model.lanes import Pause
from tokimori.model.run import Run


class Share(NamedTuple):
    """One of `of` random parts of all jobs, so that nodes do not repeat each other's work."""

    part: int = 0
    of: int = 1

    def has(self, incarnation: Incarnation) -> bool:
        """Return whether the job of this incarnation is in this part."""
        return incarnation % self.of == self.part


ALL = Share()
MOST_MAKING_WAY = 1_000
"""Most earlier runs that end with one newcomer; further ones end with the next one."""


class Planning(Protocol):
    """Due jobs, plans and promotions."""

    async def due(self, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        """Return enabled jobs whose `next_due` has come, the longest due first; none that this program can't read."""
        ...

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """Write each plan whose job is enabled and still has its incarnation, version and `fired_from`.

        Returns for each plan whether it was written; a refused one hinders no other. Cursor, next moment, state,
        anchor, `runs_remaining` and `tzdata` of the job become those of the plan. With a plan comes one id for each of
        its runs, which are born ready if due, waiting otherwise. `replaces`: earlier scheduled runs of the job are
        cancelled if they have not started, and ordered to cancel (`cancel`) if they run, `MOST_MAKING_WAY` of them at
        once. An `s:` origin that exists already is ignored, row by row.
        """
        ...

    async def outdated(self, tzdata: str, limit: int) -> list[Job]:
        """Return enabled jobs whose next moment was computed with an older tzdata than this one, the oldest first.

        Without any it is cheap for any number of jobs.
        """
        ...

    async def promote(self, now: Moment, limit: int, skip: int = 0) -> int:
        """Make due runs ready, in order, after the first `skip` ones; return their number."""
        ...

    async def hasten_run(self, run: Run, due: Moment, nominal: Moment) -> None:
        """Let a run that has not begun wait until this moment, not after its own one; a run that has changed stays.

        Its turn in a line goes to the next one.
        """
        ...


class Pausing(Protocol):
    """Pauses of queues and of everything. Jobs and runs do not change: only claims look at pauses."""

    async def add_pause(self, pause: Pause) -> Pause:
        """Pause a queue, or everything. Returns the pause in force: the older one if it was paused already.

        When this returns, no run of the queue is claimed any more, and no survey names its lanes.
        """
        ...

    async def delete_pause(self, queue: str) -> None:
        """End the pause of this queue, or of everything; do nothing if there is none."""
        ...

    async def list_pauses(self) -> list[Pause]:
        """Return all pauses, in order of their queues; the pause of everything comes first."""
        ...
