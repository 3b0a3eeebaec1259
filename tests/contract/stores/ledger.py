"""Does the ledger balance? Every occurrence of every job is one run or part of one skip, and nothing else is there."""

from collections import Counter

from tests.contract.stores.actors import NOW
from tokimori.clock import Moment
from tokimori.model.job import Job, schedule_of
from tokimori.model.run import Run, Skip
from tokimori.ports.store import RunFilter, Store


def occurrences(job: Job, through: Moment) -> list[Moment]:
    """What the job's schedule names after the new year."""
    schedule = schedule_of(job.definition, job.anchor, job.id)
    found, moment = [], NOW
    while (upcoming := schedule.next_after(moment)) is not None and upcoming <= through:
        found.append(upcoming)
        moment = upcoming
    return found


def account(occurrences: list[Moment], runs: list[Run], skips: list[Skip]) -> Counter[Moment]:
    """How often each occurrence is accounted for."""
    accounted = Counter(run.nominal for run in runs if run.origin.startswith("s:"))
    for skip in skips:
        covered = [moment for moment in occurrences if skip.first <= moment <= skip.last]
        assert len(covered) == skip.count, skip
        accounted.update(covered)
    return accounted


async def check_balance(store: Store, job: Job, through: Moment) -> None:
    """Fail unless each occurrence up to `through` is accounted for exactly once."""
    runs = await store.list_runs(RunFilter(job_id=job.id, limit=100_000))
    skips = await store.skips(job.id, limit=100_000)
    expected = occurrences(job, through)
    assert account(expected, runs, skips) == Counter(expected)


async def check_attempts(store: Store, runs: list[Run]) -> None:
    """Fail unless every run that began again says why: each attempt before the last has a row of its own."""
    for run in runs:
        numbers = [attempt.number for attempt in await store.attempts(run.id)]
        assert numbers[: run.attempt - 1] == list(range(1, run.attempt)), run
