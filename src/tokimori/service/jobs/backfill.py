"""Backfills: look at the job's runs, and create as many new ones as there is room for."""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from itertools import islice

from tokimori.clock import Moment
from tokimori.engine.refusals import raise_first
from tokimori.model.backfill import Backfill, after_making, backfill_of, next_to_make, occurrences, together
from tokimori.model.ids import RandomBytes, RunId, check_job_id, uuid7
from tokimori.model.job import Job, schedule_of
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.run import Run, backfill_origin
from tokimori.model.transitions import ACTIVE, RunState
from tokimori.ports.store import Store
from tokimori.service.jobs.ledger import scheduled_runs
from tokimori.service.long_work import Aside
from tokimori.service.store_calls import Now
from tokimori.service.validation import Bounds, checked

BATCH = 200
"""How many runs the store is asked for at once."""
PAGE = 1_000
MOST_RUNNING = 1_000_000
CANCELLED = "the backfill was cancelled"
QUIET = 1.0
"""Seconds. A paced backfill makes its next step sooner: if no run is made for this time, it has stopped."""


class Backfills:
    """The part of the service that concerns backfills. Occurrences are reckoned `aside`."""

    def __init__(self, store: Store, now: Now, random: RandomBytes, aside: Aside) -> None:
        self._store = store
        self._now = now
        self._random = random
        self._aside = aside

    async def look(self, job_id: str, first: Moment, last: Moment, bounds: Bounds) -> Backfill:
        """Return the state of the backfill: which runs it has, and which it would make. Raises `InvalidInput`."""
        bounds.check_years(first, last)
        job = await self._store.get_job(check_job_id(job_id))
        schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
        moments = await self._aside.compute(lambda: occurrences(schedule, first, last, bounds.occurrences))
        page = await self._next_page(moments)
        fired = await scheduled_runs(self._store, job, page[0], last, await self._now()) if page else {}
        parts = [backfill_of(job, first, last, (), ())]
        while page:
            origins = [backfill_origin(moment) for moment in page]
            made = await self._store.runs_of(job.incarnation, origins, len(CANCELLED))
            parts.append(
                backfill_of(job, first, last, page, [*made, *(fired[moment] for moment in page if moment in fired)])
            )
            page = await self._next_page(moments)
        return together(parts)

    async def _next_page(self, moments: Iterator[Moment]) -> list[Moment]:
        return await self._aside.compute(lambda: list(islice(moments, PAGE)))

    async def make(
        self, job_id: str, first: Moment, last: Moment, max_running: int, *, bounds: Bounds, dry_run: bool
    ) -> Backfill:
        """Make runs while there is room, and return the state afterwards. Runs are made in batches.

        Pausing or parking the job, or cancelling the backfill, stops that. Raises `Refused` for a paused or parked job.
        """
        checked("max_running", max_running, MOST_RUNNING, least=0)
        backfill = await self.look(job_id, first, last, bounds)
        wanted = () if dry_run else next_to_make(backfill, max_running)
        now = await self._now()
        made: list[Run] = []
        for start in range(0, len(wanted), BATCH):
            batch = enumerate(wanted[start : start + BATCH], start)
            runs = [_run(backfill.job, nominal, now, n, self._random) for n, nominal in batch]
            made += await _all(self._store.add_run(run, now) for run in runs)
            middle = len(made) // 2
            made[middle] = await self._store.get_run(made[middle].id)
            if _is_cancelled(made[middle]):
                break
        return after_making(backfill, made)

    async def cancel(self, job_id: str, first: Moment, last: Moment, bounds: Bounds) -> Backfill:
        """Cancel the runs of the backfill that have not started, and order the others to end.

        A program that is still making runs stops, and its newest runs are cancelled too.
        """
        quiet = False
        while True:
            backfill = await self.look(job_id, first, last, bounds)
            going_on = [run.id for run in backfill.runs if run.state in ACTIVE and run.cancel is None]
            if not going_on and (quiet or not backfill.missing):
                return backfill
            now = await self._now()
            for start in range(0, len(going_on), BATCH):
                await _all(self._store.cancel_run(run_id, CANCELLED, now) for run_id in going_on[start : start + BATCH])
            quiet = not going_on
            await asyncio.sleep(QUIET)


def was_cancelled(before: Backfill, after: Backfill) -> bool:
    """Return whether the backfill was cancelled between two readings."""
    return _cancelled(after) > _cancelled(before)


def _cancelled(backfill: Backfill) -> int:
    return sum(map(_is_cancelled, backfill.runs))


def _is_cancelled(run: Run) -> bool:
    return CANCELLED in (run.error, run.cancel)


def _run(job: Job, nominal: Moment, now: Moment, number: int, random: RandomBytes) -> Run:
    """Return a run that is ready now, in line behind runs that were due before; the oldest occurrence comes first."""
    priority = job.definition.priority
    return Run(
        id=RunId(uuid7(now, random)),
        job_id=job.id,
        incarnation=job.incarnation,
        origin=backfill_origin(nominal),
        nominal=nominal,
        due=now,
        state=RunState.READY,
        priority=priority,
        rank=rank_of(now, priority) + number,
        lane=lane_of(job.definition),
        created=now,
        concurrency_key=job.definition.concurrency_key,
    )


async def _all(calls: Iterable[Awaitable[Run]]) -> list[Run]:
    """Wait for every call, even if one of them fails, so that none runs on in the background."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    raise_first(results)
    return [each for each in results if isinstance(each, Run)]
