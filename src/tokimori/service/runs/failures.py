"""Failures by their cause: how often, of which jobs, when, and a run to look at."""

import asyncio
from collections import Counter
from typing import Unpack

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import DAY, Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.access_token import Role
from tokimori.model.cause import Mute, cause_id, cause_in, last_line
from tokimori.model.ids import JobId, RunId, check_job_id, check_uuid
from tokimori.model.job import Job
from tokimori.model.retention import first_id_at
from tokimori.model.run import LONG, Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.service.access import OPEN, Sight, jobs_within
from tokimori.service.definitions.arguments import FailureFilters
from tokimori.service.operation import M, operation
from tokimori.service.runs.mutes import RunMutes
from tokimori.service.search.jobs import MOST_JOBS, JobOf, JobsOfRuns, SeesRun, Traits, search_of
from tokimori.service.search.runs import whole
from tokimori.service.store_calls import known_job
from tokimori.service.validation import checked, moment_of
from tokimori.service.views.runs import FoundFailures as FailuresView

MOST_FAILURES = 3_000
"""Number of failed runs looked at for one answer."""
_PAGE, _SHORT = 200, 4_000
"""Number of runs read at once, and of bytes of their texts: the facts of most, and few payloads."""
_LONGEST_RUN = DAY
"""Microseconds before the period in which those runs were made that may have failed within it."""
MOST_CAUSES, JOBS_NAMED, MOST_BUCKETS = 100, 20, 1_000


class FailureCause(Struct, frozen=True, kw_only=True):
    """Failures with one cause. `id` is its name in filters.

    `jobs` are those with most failures, and `more_jobs` counts the others. `histogram` counts failures in equal parts
    of the period. `sample` is the newest failed run, and `line` what it said last. `muted`: it is muted.
    """

    id: str
    cause: str
    count: int
    jobs: tuple[JobId, ...]
    more_jobs: int
    first: Moment
    last: Moment
    histogram: tuple[int, ...]
    sample: RunId
    line: str
    muted: Mute | None = None


class FoundFailures(Struct, frozen=True, kw_only=True):
    """Failures of a period by cause, the most frequent first.

    `looked`: the number of failed runs that were read. `more_causes` counts rare causes, which are not listed. `next`:
    there may be more before this run (`before`).
    """

    causes: tuple[FailureCause, ...]
    since: Moment
    until: Moment
    count: int
    looked: int
    more_causes: int = 0
    next: RunId | None = None


class _Wanted(Traits, frozen=True, kw_only=True):
    since: Moment = Moment(0)
    until: Moment = Moment(0)
    job_id: JobId | None = None
    job_prefix: str | None = None
    state: frozenset[RunState] = frozenset()
    buckets: int = 24
    before: RunId | None = None


class RunFailures(RunMutes[M]):
    """Operations on failed runs."""

    @operation(Role.READ, OPEN, gives=FailuresView.made)
    async def failures(self, **filters: Unpack[FailureFilters]) -> FoundFailures:
        """Return the failures of a period by cause, with all that `help(tokimori.FailureFilters)` describes.

        At most 3,000 failed runs are looked at, the newest first, and 1,000 jobs: `next` says where to go on.
        """
        return await self._found(filters, self._known, None)

    @failures.within
    async def _failures_within(self, sight: Sight, **filters: Unpack[FailureFilters]) -> FoundFailures:
        """Return the failures within the scope."""
        found = await self._found(filters, jobs_within(sight.scope, self._known), sight.sees_run)
        if not found.causes:
            await sight.check_there(filters.get("job_id"))
        return found

    async def _known(self, job_id: str) -> Job:
        return await known_job(self._store, job_id)

    async def _found(self, filters: FailureFilters, job_of: JobOf, sees: SeesRun | None) -> FoundFailures:
        wanted = _checked(filters, await self._shared.now(), self._caller.time_zone)
        found, muted = _answer(wanted, *await self._gathered(wanted, job_of, sees)), await self._muted()
        return replace(found, causes=tuple(replace(each, muted=muted.get(each.id)) for each in found.causes))

    async def _cause_of(self, wanted: str, since: Moment) -> str | None:
        period = _Wanted(since=since, until=Moment(await self._shared.now() + 1), buckets=1)
        causes = (await self._gathered(period, self._known, None))[0]
        return next((cause for cause in causes if cause_id(cause) == wanted), None)

    async def _gathered(
        self, wanted: _Wanted, job_of: JobOf, sees: SeesRun | None
    ) -> tuple[dict[str, "_Gathering"], int, RunId | None]:
        """Return the failures by cause, how many failed runs were read, and where to go on, if that was not all."""
        causes = dict[str, _Gathering]()
        before, looked = min([first_id_at(wanted.until), *([wanted.before] if wanted.before else [])]), 0
        oldest = first_id_at(Moment(max(0, wanted.since - _LONGEST_RUN)))
        jobs = JobsOfRuns(job_of, wanted, sees, self._store.get_jobs)
        asked = RunFilter(job_id=wanted.job_id, states=frozenset({RunState.FAILED}), limit=_PAGE, longest=_SHORT)
        is_all = False
        while not is_all and looked < MOST_FAILURES and jobs.asked < MOST_JOBS:
            page = await self._store.list_runs(replace(asked, before=before))
            near = [run for run in page if run.id >= oldest]
            is_all = len(page) < _PAGE or len(near) < len(page)
            await jobs.learn(near)
            for run in near:
                before, looked = run.id, looked + 1
                if _is_of(run, wanted) and await jobs.admit(run):
                    is_cut = run.details.as_stored == LONG
                    cause = cause_in(await whole(self._store.list_runs, run) if is_cut else run) or "failed"
                    gathered = causes.get(cause) or causes.setdefault(cause, _Gathering(wanted))
                    gathered.add(run)
            await asyncio.sleep(0)
        return causes, looked, None if is_all else RunId(before)


class _Gathering:
    """Failures with one cause, while they are counted."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self.jobs = Counter[JobId]()
        self.ended: list[Moment] = []
        self.newest: Run | None = None

    def add(self, run: Run) -> None:
        """Count a run. The first one is the newest."""
        self.newest = self.newest or run
        self.jobs[run.job_id] += 1
        self.ended.append(run.ended or run.created)

    def summary(self, cause: str, newest: Run) -> FailureCause:
        """Return the summary of these failures."""
        since, until, buckets = self._wanted.since, self._wanted.until, self._wanted.buckets
        places = Counter((ended - since) * buckets // (until - since) for ended in self.ended)
        jobs = [job_id for job_id, _ in self.jobs.most_common(JOBS_NAMED)]
        return FailureCause(
            id=cause_id(cause),
            cause=cause,
            count=len(self.ended),
            jobs=tuple(jobs),
            more_jobs=len(self.jobs) - len(jobs),
            first=min(self.ended),
            last=max(self.ended),
            histogram=tuple(places[place] for place in range(buckets)),
            sample=newest.id,
            line=newest.details.line or last_line(newest.error or "")[:200],
        )


def _answer(wanted: _Wanted, causes: dict[str, _Gathering], looked: int, rest: RunId | None) -> FoundFailures:
    ordered = sorted(causes.items(), key=lambda each: (-len(each[1].ended), each[0]))
    return FoundFailures(
        causes=tuple(each.summary(cause, each.newest) for cause, each in ordered[:MOST_CAUSES] if each.newest),
        since=wanted.since,
        until=wanted.until,
        count=sum(len(each.ended) for each in causes.values()),
        looked=looked,
        more_causes=max(0, len(ordered) - MOST_CAUSES),
        next=rest,
    )


def _is_of(run: Run, wanted: _Wanted) -> bool:
    ended = run.ended or run.created
    return wanted.since <= ended < wanted.until and run.job_id.startswith(wanted.job_prefix or "")


def _checked(filters: FailureFilters, now: Moment, zone: str) -> _Wanted:
    """Return the search with these filters. Raises `InvalidInput`."""
    given = {name: value for name, value in filters.items() if value is not None and name != "state"}
    until = moment_of("until", given["until"], zone) if "until" in given else Moment(now + 1)
    since = moment_of("since", given["since"], zone) if "since" in given else Moment(until - DAY)
    if since >= until:
        value = format_moment(since)
        raise InvalidInput("since: the period is empty", field="since", value=value, allowed="a moment before until")
    wanted = search_of(_Wanted, RunState, {**given, "since": since, "until": until})
    checked("buckets", wanted.buckets, MOST_BUCKETS)
    if wanted.job_id is not None:
        check_job_id(wanted.job_id, field="job_id")
    if wanted.job_prefix is not None:
        check_job_id(wanted.job_prefix, field="job_prefix")
    if wanted.before is not None:
        check_uuid(wanted.before, field="before")
    return wanted
