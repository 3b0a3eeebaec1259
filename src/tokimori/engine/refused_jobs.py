"""Refused jobs: those whose plans the store refuses wait, and at last are parked; the others fire."""

import logging
from collections.abc import Set
from dataclasses import dataclass

from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.engine.fire import BATCH, Fired, ParkingStore, Refusal, park
from tokimori.engine.refusals import PATIENCE, pause_after, refuses_for_good, tell
from tokimori.errors import StoreError, StoreTooSlow
from tokimori.model.ids import Incarnation
from tokimori.model.job import Job

log = logging.getLogger(__name__)

KNOWN_FOR = 10 * MINUTE
"""Microseconds for which it is known how often a job was refused."""


@dataclass(slots=True)
class _RefusedJob:
    """Refusals of a job's own plans, and until when it waits."""

    tries: int
    until: Moment


class RefusedJobs:
    """Finds by halves the job whose plan is at fault. `limit`: how many jobs to decide in one transaction."""

    def __init__(self, store: ParkingStore) -> None:
        self._store = store
        self._known: dict[Incarnation, _RefusedJob] = {}
        self._took = True
        self.limit = BATCH

    def waiting(self, now: Moment) -> Set[Incarnation]:
        """Return the jobs that are not to be decided yet."""
        self._known = {job: refused for job, refused in self._known.items() if refused.until + KNOWN_FOR > now}
        return {job for job, refused in self._known.items() if refused.until > now}

    def took(self, fired: Fired | None) -> None:
        """Note that the store took a batch, if there was one."""
        if fired is not None:
            self.limit, self._took = min(BATCH, 2 * self.limit), True

    async def note(self, refusal: Refusal, now: Moment) -> None:
        """Fewer jobs at once from now on, and one alone waits. Raises the fault where the store seems ill."""
        jobs, fault = refusal
        if len(jobs) == 1:
            await self._set_aside(jobs[0], fault, now)
            return
        self.limit = len(jobs) // 2
        told = f"the store refused what {len(jobs)} jobs bring; fewer are tried at once: {fault}"
        tell(log, told, fault)
        if isinstance(fault, StoreTooSlow) or not self._took:
            raise fault

    async def _set_aside(self, job: Job, fault: Exception, now: Moment) -> None:
        """Set a refused job aside. A slow store parks nobody, nor does one that is ill for a moment."""
        self._took = False
        tries = self._known[job.incarnation].tries + 1 if job.incarnation in self._known else 1
        pause = pause_after(tries)
        self._known[job.incarnation] = _RefusedJob(tries, Moment(now + round(pause * SECOND)))
        if tries >= PATIENCE and refuses_for_good(fault):
            try:
                await park(self._store, job, f"the store refused what its schedule brings: {fault}")
                log.error("the store refuses what job %s brings; it is parked: %s", job.id, fault)
                return
            except StoreError as other:
                fault = other
        told = f"the store refused what job {job.id} brings, which is tried again in {pause:g} s: {fault}"
        tell(log, told, fault)
