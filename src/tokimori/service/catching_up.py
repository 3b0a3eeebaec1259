"""Occurrences that are decided before a job is edited: all up to now, by the old definition."""

from collections.abc import Callable

from tokimori.clock import Moment, format_moment
from tokimori.engine.fire import decide_and_apply
from tokimori.errors import Refused
from tokimori.model.decide import MOST_OCCURRENCES, Due
from tokimori.model.ids import RandomBytes
from tokimori.model.job import Job, JobState
from tokimori.ports.store import Store
from tokimori.schedules.schedule import Schedule
from tokimori.service.aside import Aside
from tokimori.service.asking import MOST_TRIES
from tokimori.service.edits import Edit, is_due

LONGEST = 10.0
"""Seconds: who edits a job waits so long for what is to be decided before."""


async def reckoned(aside: Aside, due: Due, now: Moment, edit_of: Callable[[Due], Edit]) -> Edit:
    """Return the edit: beside the loop, where it skips what the job has not decided, which may be years."""
    is_behind = due.job.state in (JobState.PAUSED, JobState.PARKED) or is_due(due.job, now)
    return await aside.compute(lambda: edit_of(due)) if is_behind else edit_of(due)


async def caught_up(
    store: Store,
    due: Due,
    now: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    *,
    monotonic: Callable[[], float],
) -> Due:
    """Return the job after its occurrences up to now were decided. If a catch-up is full, the edit skips the rest.

    Raises `Refused` where that takes too long: what was decided stays so, and who asks again goes on from there.
    """
    tries, left, end = MOST_TRIES, MOST_TRIES * MOST_OCCURRENCES, monotonic() + LONGEST
    while min(tries, left) > 0 and is_due(job := due.job, now):
        if monotonic() > end:
            raise _too_slow(job)
        decided = await decide_and_apply(store, [due], now, random, schedule_for, monotonic=monotonic)
        tries, left = tries - (not decided.applied), left - sum(plan.walked for plan in decided.applied)
        due = await store.get_due(job.id)
    return due


def _too_slow(job: Job) -> Refused:
    return Refused(
        f"the job {job.id!r} has missed so many occurrences that they are decided up to "
        f"{format_moment(job.fired_through)} only, and an edit begins behind them: ask again, it goes on from there",
        field="id",
        value=job.id,
        allowed=f"the same again, or `tokimori job pause {job.id}` before: what a paused job has missed is skipped",
    )
