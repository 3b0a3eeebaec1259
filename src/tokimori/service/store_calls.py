"""Calls of the store that several parts make: with retries, in pages, or many at a time; and the store's time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from tokimori.clock import Clock, Moment
from tokimori.engine.refusals import raise_first
from tokimori.errors import NotFound, StoreUnavailable
from tokimori.model.ids import JobId, RunId, check_job_id, check_uuid
from tokimori.model.job import Job
from tokimori.model.lease import Timeline, follow
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import Jobs, RunFilter, Store
from tokimori.service.validation import MOST_LISTED

FRESH = 10.0
"""Seconds for which an answer of the store is carried on by this machine's monotonic clock."""

Now = Callable[[], Awaitable[Moment]]
"""What time is it? May raise `StoreError`."""


class StoreTime:
    """Asks the store what time it is, at most every `FRESH` seconds. The machine's wall clock may be set wrong."""

    def __init__(self, ask: Now, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._timeline: Timeline | None = None
        self._asked = 0.0

    async def __call__(self) -> Moment:
        """Return the store's time now."""
        sent = self._clock.monotonic()
        if self._timeline is None or sent >= self._asked + FRESH:
            moment = await self._ask_again()
            answered = self._clock.monotonic()
            self._timeline = follow(self._timeline or Timeline(moment, answered), moment, sent, answered)
            self._asked = sent
        return self._timeline.now(self._clock.monotonic())

    async def _ask_again(self) -> Moment:
        """Return the store's time; ask once more after a lost reply. Callers may try again, too."""
        try:
            return await self._ask()
        except StoreUnavailable:
            return await self._ask()


_T = TypeVar("_T")

MOST_TRIES = 10
"""How often a change is tried again while others change the same thing."""
AT_ONCE = 200
"""Number of changes under way at a time: one by one each would wait for a commit of its own, and for all writers."""


async def retried(
    act: Callable[[], Awaitable[_T]], *again: type[Exception], wanted: Callable[[], bool] = lambda: True
) -> _T:
    """Retry `act` after these errors while `wanted` agrees.

    Each try starts from the store's present state, so a lost reply does no harm.
    """
    for _ in range(MOST_TRIES - 1):
        try:
            return await act()
        except again:
            if not wanted():
                raise
    return await act()


async def cancel_all(cancel: Callable[[str, str], Awaitable[object]], runs: Sequence[Run], reason: str) -> int:
    """Cancel these runs, some at a time, and return how many had not ended. After an error no call is running."""
    found = 0
    for start in range(0, len(runs), AT_ONCE):
        asked = (cancel(run.id, reason) for run in runs[start : start + AT_ONCE])
        results = await asyncio.gather(*asked, return_exceptions=True)
        done = [each for each in results if not isinstance(each, NotFound)]
        raise_first(done)
        found += len(done)
    return found


async def cancel_run(store: Store, now: Now, run_id: str, reason: str) -> Run:
    """Cancel a run for a reason of ours, which may quote one."""
    checked, at = RunId(check_uuid(run_id, field="run")), await now()
    return await retried(lambda: store.cancel_run(checked, reason, at), StoreUnavailable)


async def cancel_running(store: Store, now: Now, job: Job, reason: str) -> None:
    """Cancel the running runs of a job that is paused, so that no more are claimed."""
    running = RunFilter(job_id=job.id, states=frozenset({RunState.RUNNING}), limit=MOST_LISTED, longest=0)
    while runs := await store.list_runs(running):
        own = [run for run in runs if run.incarnation == job.incarnation]
        await cancel_all(lambda run_id, why: cancel_run(store, now, run_id, why), own, reason)
        running = replace(running, before=runs[-1].id)


async def all_jobs(store: Jobs, *, idle: bool = False, like: Sequence[str] = ()) -> AsyncIterator[Job]:
    """Yield all jobs by id, read in pages. `idle` and `like`: see `Jobs.list_jobs`."""
    after: JobId | None = None
    while page := await store.list_jobs(after=after, limit=MOST_LISTED, idle=idle, like=like):
        for job in page:
            yield job
        after = page[-1].id


async def known_job(store: Jobs, job_id: str) -> Job:
    """Return the job of that id. A deleted job is found until its last run ends or its id is reused."""
    checked_id = check_job_id(job_id)
    with suppress(NotFound):
        return await store.get_job(checked_id)
    return await store.deleted_job(checked_id)
