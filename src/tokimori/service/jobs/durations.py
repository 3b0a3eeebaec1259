"""Durations and success of the runs of many jobs at once, for doors that show lists."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tokimori.clock import DAY, Moment
from tokimori.model.access_token import Role
from tokimori.model.ids import JobId, RunId, check_job_id
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run
from tokimori.model.statistics import quantiles
from tokimori.model.transitions import RunState
from tokimori.ports.store import Tally
from tokimori.service.access import OPEN, Sight
from tokimori.service.operation import M, Part, operation
from tokimori.service.shared import Shared
from tokimori.service.validation import checked, many
from tokimori.service.view_cache import Durations
from tokimori.service.views.jobs import Durations as DurationsView
from tokimori.service.views.outside import values_of

MOST_JOBS = 100
"""Number of jobs asked about at once."""
MEASURED, _AT_ONCE = 50, 2_000
"""Number of the newest runs of a job read at most, and of all jobs of a question together."""


class JobDurations(Part[M]):
    """Operations on the durations of jobs."""

    _shared: Shared

    @operation(Role.READ, OPEN, gives=values_of(DurationsView.made))
    async def durations(self, job_ids: Sequence[str]) -> Mapping[JobId, Durations]:
        """Return how long runs of each of these jobs (at most 100) take, from their newest runs, at most 50 of each.

        Also how many of the last 7 days succeeded and failed, of the newest 2,000; for a token of queues, of those 50.
        An answer may be 30 seconds old. An unknown job has no runs. Raises `InvalidInput`.
        """
        ids, now = _checked(job_ids), self._shared.clock.monotonic()
        known = {each: self._shared.durations.of(each, now) for each in ids}
        asked = [each for each, found in known.items() if found is None]
        tallies = {each.job_id: each for each in await self._tallies(asked)}
        fresh = {
            job_id: _of(runs, tallies.get(job_id, Tally(job_id, 0, 0)))
            for job_id, runs in (await self._newest(asked)).items()
        }
        self._shared.durations.put(fresh, now)
        return {each: known[each] or fresh[each] for each in ids}

    @durations.within
    async def _durations_within(self, sight: Sight, job_ids: Sequence[str]) -> Mapping[JobId, Durations]:
        """Return the durations of jobs in scope, from runs in scope."""
        ids = _checked(job_ids)
        for each in ids:
            await sight.check_there(each)
        if not sight.scope.queues:
            return await self.durations(ids)
        since, found = await self._since(), dict[JobId, Durations]()
        for job_id, newest in (await self._newest(ids)).items():
            runs = [run for run in newest if await sight.sees_run(run)]
            ends = Counter(run.state for run in runs if run.id >= since)
            found[job_id] = _of(runs, Tally(job_id, ends[RunState.SUCCEEDED], ends[RunState.FAILED]))
        return found

    async def _tallies(self, job_ids: Sequence[JobId]) -> Sequence[Tally]:
        return await self._shared.store.tallies(job_ids, await self._since()) if job_ids else ()

    async def _since(self) -> RunId:
        return first_id_at(Moment(await self._shared.now() - 7 * DAY))

    async def _newest(self, job_ids: Sequence[JobId]) -> Mapping[JobId, Sequence[Run]]:
        found: dict[JobId, list[Run]] = {each: [] for each in job_ids}
        if job_ids:
            for run in await self._shared.store.last_runs(job_ids, min(MEASURED, _AT_ONCE // len(job_ids)), 0):
                found[run.job_id].append(run)
        return found


def _checked(job_ids: Sequence[str]) -> list[JobId]:
    ids = [check_job_id(each, field="job_ids") for each in many("job_ids", job_ids, "ids of jobs")]
    checked("job_ids", max(1, len(ids)), MOST_JOBS)
    return list(dict.fromkeys(ids))


def _of(runs: Sequence[Run], tally: Tally) -> Durations:
    good = [run for run in runs if run.state is RunState.SUCCEEDED and run.started is not None]
    found = quantiles([(run.ended or 0) - (run.started or 0) for run in good])
    return Durations(
        p50=None if found is None else found.p50,
        p95=None if found is None else found.p95,
        runs=len(good),
        succeeded=tally.succeeded,
        failed=tally.failed,
    )
