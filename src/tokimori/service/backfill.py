"""How a backfill is carried out: look at the job's runs, and make as many new ones as there is room for."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence

from tokimori.clock import MINUTE, Moment
from tokimori.model.backfill import Backfill, backfill_of, next_to_make, occurrences
from tokimori.model.ids import RandomBytes, RunId, check_job_id, uuid7
from tokimori.model.job import Job, schedule_of
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run, backfill_origin
from tokimori.model.transitions import ACTIVE, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.asking import checked
from tokimori.service.store_time import Now

BATCH = 200
"""How many runs the store is asked for at once."""
PAGE = 1_000
LOOKED_AT = 20
"""Runs among which a scheduled one is looked for."""
MOST_RUNNING = 1_000_000
CANCELLED = "the backfill was cancelled"
QUIET = 1.0
"""Seconds. A paced backfill makes its next step sooner: if no run is made for so long, it has stopped."""


class Backfills:
    """The part of the service that concerns backfills."""

    def __init__(self, store: Store, now: Now, random: RandomBytes) -> None:
        self._store = store
        self._now = now
        self._random = random

    async def look(self, job_id: str, first: Moment, last: Moment) -> Backfill:
        """The state of the backfill: which runs it has, and which it would make."""
        job = await self._store.get_job(check_job_id(job_id))
        moments = occurrences(schedule_of(job.definition, job.anchor, job.id, job.days_off), first, last)
        runs = await _scheduled(self._store, job, moments, await self._now()) if moments else []
        for start in range(0, len(moments), PAGE):
            origins = [backfill_origin(moment) for moment in moments[start : start + PAGE]]
            runs += await self._store.runs_of(job.incarnation, origins)
        return backfill_of(job, first, last, moments, runs)

    async def make(self, job_id: str, first: Moment, last: Moment, max_running: int, *, dry_run: bool) -> Backfill:
        """Make the runs for which there is room; the state afterwards. Raises `Refused` for a paused or parked job."""
        checked("max_running", max_running, MOST_RUNNING, least=0)
        backfill = await self.look(job_id, first, last)
        wanted = () if dry_run else next_to_make(backfill, max_running)
        now = await self._now()
        runs = [_run(backfill.job, nominal, now, n, self._random) for n, nominal in enumerate(wanted)]
        for start in range(0, len(runs), BATCH):
            await _all(self._store.add_run(run, now) for run in runs[start : start + BATCH])
        return await self.look(job_id, first, last) if runs else backfill

    async def cancel(self, job_id: str, first: Moment, last: Moment) -> Backfill:
        """Cancel the runs of the backfill that have not started, and order the others to end.

        A program that is still making runs sees that and stops; the runs that it made meanwhile are cancelled too.
        """
        quiet = False
        while True:
            backfill = await self.look(job_id, first, last)
            going_on = [run.id for run in backfill.runs if run.state in ACTIVE and run.cancel is None]
            if not going_on and (quiet or not backfill.missing):
                return backfill
            now = await self._now()
            for start in range(0, len(going_on), BATCH):
                await _all(self._store.cancel_run(run_id, CANCELLED, now) for run_id in going_on[start : start + BATCH])
            quiet = not going_on
            await asyncio.sleep(QUIET)


def was_cancelled(before: Backfill, after: Backfill) -> bool:
    """Whether somebody cancelled the backfill between two looks at it."""
    return _cancelled(after) > _cancelled(before)


def _cancelled(backfill: Backfill) -> int:
    return sum(CANCELLED in (run.error, run.cancel) for run in backfill.runs)


def _run(job: Job, nominal: Moment, now: Moment, number: int, random: RandomBytes) -> Run:
    """A run that is ready now, in line behind runs that were due before; the oldest occurrence comes first."""
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


async def _all(calls: Iterable[Awaitable[Run]]) -> None:
    """Wait for every call, even if one of them fails: after an error nothing goes on in the background."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def _scheduled(store: Store, job: Job, moments: Sequence[Moment], now: Moment) -> list[Run]:
    """The scheduled runs of these occurrences. No run is made before its nominal time."""
    first, last = moments[0], moments[-1]
    oldest = first_id_at(first)
    found: list[Run] = []
    before = await _behind(store, job, last, now)
    while page := await store.list_runs(RunFilter(job_id=job.id, before=before, limit=PAGE)):
        found += (run for run in page if _is_scheduled(run, job) and first <= run.nominal <= last)
        before = page[-1].id
        if before < oldest:
            break
    return found


async def _behind(store: Store, job: Job, last: Moment, now: Moment) -> RunId | None:
    """No run of the job for an occurrence up to `last` has this id or a greater one.

    Occurrences are decided in their order, however late: the runs of later ones are not older, but for what clocks
    differ. Runs of other origin may be between them. None: no later one was found.
    """
    away = MINUTE
    while last + away < now:
        newest = RunFilter(job_id=job.id, before=first_id_at(Moment(last + away)), limit=LOOKED_AT)
        later = [run for run in await store.list_runs(newest) if _is_scheduled(run, job) and run.nominal > last]
        if later:
            return first_id_at(Moment(later[-1].created + MINUTE))
        away *= 2
    return None


def _is_scheduled(run: Run, job: Job) -> bool:
    return run.incarnation == job.incarnation and run.origin.startswith("s:")
