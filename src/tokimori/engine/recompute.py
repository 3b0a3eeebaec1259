"""Next moments computed anew by this program's tzdata, once, when a node starts."""

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from math import inf

from tokimori.clock import Moment
from tokimori.engine.fire import FiringStore, Planned
from tokimori.engine.pace import PageSize
from tokimori.engine.refusals import LONGEST_PAUSE, PAUSE, is_fault_of_request, log_refusal
from tokimori.model.decide import Plan, reckoned, unchanged
from tokimori.model.ids import JobId, NodeId
from tokimori.model.job import Job
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.zones import tzdata_version

log = logging.getLogger(__name__)

BATCH = 500


class Reckoner:
    """Duty to reckon a batch of jobs at each step, until none is left: a new node may have newer time zone rules."""

    def __init__(self, store: FiringStore, schedule_for: Callable[[Job], Schedule]) -> None:
        self._store = store
        self._schedule_for = schedule_for
        self._limit, self._page_size = BATCH, PageSize(BATCH)
        self._refused: set[JobId] = set()
        self.next_at = -inf

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. A refused batch is retried later, in smaller ones; a single refused job is skipped."""
        jobs: list[Job] = []
        try:
            jobs = await outdated_jobs(self._store, min(self._limit, self._page_size.limit), self._refused)
            self._page_size.note(jobs)
            await reckon(self._store, jobs, now, self._schedule_for)
        except Exception as fault:
            if not is_fault_of_request(fault):
                raise
            self.next_at = at + self._refuse(jobs, fault)
            return False
        self._limit = min(BATCH, 2 * self._limit)
        self.next_at = -inf if jobs else at + LONGEST_PAUSE if self._refused else inf
        if not jobs:
            self._refused.clear()
        return True

    def _refuse(self, jobs: Sequence[Job], fault: Exception) -> float:
        """Seconds until the next step."""
        if len(jobs) == 1:
            self._refused.add(jobs[0].id)
            log_refusal(
                log,
                f"the store refuses next moment of job {jobs[0].id}; it is tried again later: {fault}",
                fault,
            )
            return PAUSE
        log_refusal(log, f"the store refused next moments of jobs: {fault}", fault)
        pause = LONGEST_PAUSE if self._limit == 1 else PAUSE
        self._limit = max(1, min(self._limit, len(jobs) or self._limit) // 2)
        return pause


async def outdated_jobs(store: FiringStore, limit: int, past: Set[JobId] = frozenset()) -> list[Job]:
    """Return up to `limit` jobs whose next moment was computed by another tzdata, except some."""
    jobs = await store.outdated(tzdata_version(), limit + len(past))
    return [job for job in jobs if job.id not in past][:limit]


async def reckon(store: FiringStore, jobs: Sequence[Job], now: Moment, schedule_for: Callable[[Job], Schedule]) -> None:
    """Give jobs their next moment by this program's tzdata.

    A job that was changed meanwhile is found by the next call. Nothing is decided: the cursor stays, so that no
    occurrence comes twice, and one that the new rules put into the past is late. A job that can't be reckoned keeps its
    moment, and is parked when it is due.
    """
    plans = list[Planned]()
    for job in jobs:
        plans.append((_plan(job, schedule_for), []))
        await asyncio.sleep(0)  # a text that is read for the first time may take 20 ms
    if plans:
        done = sum(await store.apply(plans, now))
        log.info("reckoned the next moments of %d jobs by tzdata %s", done, tzdata_version())


def _plan(job: Job, schedule_for: Callable[[Job], Schedule]) -> Plan:
    try:
        return reckoned(job, schedule_for(job))
    except Exception as fault:
        log.warning("the next moment of job %s can't be reckoned: %s", job.id, fault)
        return unchanged(job)
