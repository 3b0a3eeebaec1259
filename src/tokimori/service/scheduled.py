"""Scheduled runs of a range of occurrences, found without an index by moments."""

from collections.abc import AsyncIterator, Sequence

from tokimori.clock import MINUTE, Moment, format_moment
from tokimori.errors import Refused
from tokimori.model.ids import RunId
from tokimori.model.job import Job
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run
from tokimori.ports.store import OCCURRENCES, RunFilter, Runs

PAGE = 1_000
MOST_LOOKED_AT = 200_000
"""So many runs, of whatever origin, are read for one answer: it takes some seconds."""
OF_BACKFILL = 0.1
"""For so much of one counts a run that a backfill made: one of a million has to look past its own to be cancelled."""
LOOKED_AT = 20
"""Runs among which a scheduled one is looked for."""


async def scheduled_runs(store: Runs, job: Job, first: Moment, last: Moment, now: Moment) -> dict[Moment, Run]:
    """Return the scheduled runs of the occurrences from `first` to `last`. Raises `Refused` where too many are
    between.
    """
    found: dict[Moment, Run] = {}
    looked_at = 0.0
    async for page in pages_of_runs(store, job, first, last, now):
        if looked_at >= MOST_LOOKED_AT:
            raise Refused(
                f"from: {job.id!r} has over {MOST_LOOKED_AT:,} runs since {format_moment(first)}, scheduled ones and "
                "others: which occurrences have none would take too long to tell",
                field="from",
                value=format_moment(first),
                allowed="a shorter range of occurrences; ask for the next ones then",
            )
        found |= {run.nominal: run for run in among(page, job, first, last)}
        looked_at += sum(OF_BACKFILL if run.origin.startswith("b:") else 1 for run in page)
    return found


async def pages_of_runs(
    store: Runs, job: Job, first: Moment, last: Moment, now: Moment, *, likely: int = PAGE
) -> AsyncIterator[Sequence[Run]]:
    """Yield runs of the job, newest first, all those of occurrences from `first` to `last` among them.

    No run is made before its nominal time. `likely`: how many there are if no others are between them.
    """
    oldest, left = first_id_at(first), likely + LOOKED_AT
    before = await _behind(store, job, last, now)
    while page := await store.list_runs(
        RunFilter(job_id=job.id, before=before, limit=_limit(left), longest=OCCURRENCES)
    ):
        yield page
        before, left = page[-1].id, left - len(page)
        if before < oldest:
            break


def _limit(left: int) -> int:
    return min(PAGE, left) if left > 0 else PAGE


def among(page: Sequence[Run], job: Job, first: Moment, last: Moment) -> Sequence[Run]:
    """Return the scheduled runs of occurrences from `first` to `last`."""
    return [run for run in page if first <= run.nominal <= last and _is_scheduled(run, job)]


async def _behind(store: Runs, job: Job, last: Moment, now: Moment) -> RunId | None:
    """No run of the job for an occurrence up to `last` has this id or a greater one.

    Occurrences are decided in their order, however late: the runs of later ones are not older, but for what clocks
    differ. Runs of other origin may be between them. None: no later one was found.
    """
    away = MINUTE
    while last + away < now:
        newest = RunFilter(job_id=job.id, before=first_id_at(Moment(last + away)), limit=LOOKED_AT, longest=OCCURRENCES)
        later = [run for run in await store.list_runs(newest) if _is_scheduled(run, job) and run.nominal > last]
        if later:
            return first_id_at(Moment(later[-1].created + MINUTE))
        away *= 2
    return None


def _is_scheduled(run: Run, job: Job) -> bool:
    return run.incarnation == job.incarnation and run.origin.startswith("s:")
