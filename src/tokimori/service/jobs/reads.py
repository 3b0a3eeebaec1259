"""Jobs as they are read: what they are, what they have done, and what they will do."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Unpack

from msgspec.structs import replace

from tokimori.clock import Moment, to_datetime
from tokimori.model.access_token import Role
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import Job, JobState, edges_of
from tokimori.model.lanes import Pause
from tokimori.model.ledger import known_since
from tokimori.model.retention import MOST_COUNTED, DailyCount, daily_counts, day_of
from tokimori.model.run import Run, Skip
from tokimori.model.statistics import Statistics, statistics
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.schedules.explain import Explanation, explained
from tokimori.service.access import JOB, OPEN, Sight, no_job
from tokimori.service.bulk import JobBulk
from tokimori.service.definitions.arguments import JobFilters
from tokimori.service.jobs.durations import JobDurations
from tokimori.service.jobs.graph import around, check_few, direct, how
from tokimori.service.jobs.ledger import LedgerOf, LedgerPage, Verified, check_range
from tokimori.service.jobs.writer import JobWriter, schedule_for, writer_on
from tokimori.service.long_work import AT_ONCE
from tokimori.service.operation import M, operation
from tokimori.service.queues import binding
from tokimori.service.reasons import Why
from tokimori.service.search.jobs import EVERY_ID, MOST_PAGES, FoundJobs, find_jobs, searched_jobs
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import known_job
from tokimori.service.validation import MOST_LISTED, When, checked, moment_of
from tokimori.service.view_cache import Facts, Shown
from tokimori.service.views.jobs import DailyCount as CountView
from tokimori.service.views.jobs import FoundJobs as FoundJobsView
from tokimori.service.views.jobs import Job as JobView
from tokimori.service.views.jobs import LedgerPage as LedgerView
from tokimori.service.views.jobs import Skip as SkipView
from tokimori.service.views.jobs import Statistics as StatisticsView
from tokimori.service.views.jobs import Verified as VerifiedView
from tokimori.service.views.outside import list_of
from tokimori.service.views.resources import Pause as PauseView
from tokimori.service.views.schedules import Explanation as ExplanationView
from tokimori.service.why.job import overdue, what_is_lost, why_job
from tokimori.service.why.reader import WhyReader
from tokimori.service.why.reading import WhyReading
from tokimori.service.why.stops import stopped


class JobReads(JobBulk[M], JobDurations[M]):
    """Operations that read jobs. Every one may raise `StoreError`, and `NotFound` for an unknown job."""

    noun, word = "jobs", "job"

    def __init__(self, shared: Shared, caller: Caller) -> None:
        self._shared, self._caller = shared, caller
        self._store, self._now, self._aside = shared.store, shared.now, shared.aside
        self._writer: JobWriter = writer_on(shared, caller)

    # What there is

    @operation(Role.READ, JOB, gives=JobView.made)
    async def get(self, job_id: str) -> Job:
        """Return the job of that id. Deleted ones are found, `deleted`, until its last run ends or the id is reused."""
        return await known_job(self._store, job_id)

    @operation(Role.READ, OPEN, gives=FoundJobsView.made)
    async def list(self, **filters: Unpack[JobFilters]) -> FoundJobs:
        """Return the jobs with all that `help(tokimori.JobFilters)` describes, by id, at most 1,000.

        At most 20,000 are looked at: the answer may be short, and says in `next` where to go on (`after`).
        """
        return await find_jobs(self._store.list_jobs, self.get, searched_jobs(filters))

    @list.within
    async def _list_within(self, sight: Sight, **filters: Unpack[JobFilters]) -> FoundJobs:
        ids = sight.scope.jobs
        span = (min(ids)[:-1], f"{max(ids)}\x7f") if ids else EVERY_ID
        return await find_jobs(self._store.list_jobs, self.get, searched_jobs(filters), sight.sees, span)

    @operation(Role.READ, JOB, gives=JobView.of_shown)
    async def shown(self, job_id: str, n: int = 5) -> Shown:
        """Return the job with all that is shown with it, and its next `n` moments. The store is asked all at once."""
        wanted, now = checked("n", n, self._caller.bounds.moments), await self._now()
        mark = self._shared.foreseen.mark() if not self._shared.apart else None
        if (known := self._shared.foreseen.unchanged(check_job_id(job_id), mark, now, wanted)) is not None:
            return known
        job, family, pauses = await asyncio.gather(self.get(job_id), self._store.family(), self._store.list_pauses())
        facts = Facts(
            job=job,
            edges=direct(family.edges, job.id),
            pauses=binding(job.definition.queue, pauses),
            too_heavy=tuple([each.text for each in await self._writer.weights.too_heavy(job.definition)]),
        )
        shown = self._shared.foreseen.find(facts, now, wanted)
        if shown is None:
            moments = () if stopped(job) else await self._next_of(job, now, wanted)
            shown = Shown(facts=facts, moments=moments)
        self._shared.foreseen.put(shown, mark, now, wanted)
        return shown

    @shown.within
    async def _shown_within(self, sight: Sight, job_id: str, n: int = 5) -> Shown:
        """Return a job with its surroundings. Edges that other jobs declare are shown between jobs in scope only."""
        found = await self.shown(job_id, n)
        own, facts = found.facts.job.id, found.facts
        others = {job for edge in facts.edges if edge.declared_by != own for job in (edge.parent, edge.child)} - {own}
        hidden = {job for job in others if not await sight.sees_id(job)}
        edges = [edge for edge in facts.edges if edge.declared_by == own or not hidden & {edge.parent, edge.child}]
        return replace(found, facts=replace(facts, edges=edges)) if hidden else found

    @operation(Role.READ, JOB, gives=list_of(PauseView.made))
    async def pauses(self, job_id: str) -> Sequence[Pause]:
        """Return the pauses of the job's queue and of everything, whatever the state of the job itself."""
        return binding((await self.get(job_id)).definition.queue, await self._store.list_pauses())

    @operation(Role.READ, JOB)
    async def too_heavy(self, job_id: str) -> Sequence[str]:
        """Return a sentence for each weight that exceeds its semaphore's limit: no run starts until that is raised."""
        return tuple([each.text for each in await self._writer.weights.too_heavy((await self.get(job_id)).definition)])

    @operation(Role.READ, OPEN)
    async def graph(self, job_id: str | None = None) -> Sequence[Edge]:
        """Return the edges between jobs, by parent; with an id those above and below that job: of over 10,000 the
        nearest.

        Raises `Refused` if all are over 10,000.
        """
        checked_id = None if job_id is None else (await self.get(job_id)).id
        edges = (await self._store.family()).edges
        if checked_id is not None:
            return await self._aside.compute(lambda: around(edges, checked_id))
        check_few(edges)
        return sorted(edges)

    @graph.within
    async def _graph_within(self, sight: Sight, job_id: str | None = None) -> Sequence[Edge]:
        """Return the edges between jobs that are both within the scope."""
        if job_id is not None and not await sight.sees_id(job_id):
            raise no_job(job_id)
        edges = await self.graph(job_id)
        known = {job: await sight.sees_id(job) for edge in edges for job in (edge.parent, edge.child)}
        return [edge for edge in edges if known[edge.parent] and known[edge.child]]

    # What comes

    @operation(Role.READ, JOB, gives=list_of(to_datetime))
    async def next(self, job_id: str, n: int = 10, after: When | None = None) -> Sequence[Moment]:
        """Return the next moments of the job's schedule, whatever its state; at most as many as it has runs remaining.

        `after` is an aware datetime, a text (without offset a time in the job's zone) or a moment; now by default.
        """
        job = await self.get(job_id)
        start = await self._start(after, job.definition.time_zone)
        return await self._next_of(job, start, checked("n", n, self._caller.bounds.moments))

    async def _next_of(self, job: Job, start: Moment, wanted: int) -> Sequence[Moment]:
        if job.state is JobState.DELETED:
            return []

        def found() -> Sequence[Moment]:
            return [moment for _, moment in islice(moments_of(job, start), wanted)]

        return found() if wanted <= AT_ONCE else await self._aside.compute(found)

    @operation(Role.READ, JOB, gives=ExplanationView.made)
    async def explain(self, job_id: str, n: int = 5, after: When | None = None) -> Explanation:
        """Explain the schedule of a job, with the next moments as `next` gives them.

        Whether anything of it starts is what `why` says.
        """
        job = await self.get(job_id)
        explains = partial(
            explained,
            job.definition.schedule or "on demand",
            schedule_for(job),
            zone=job.definition.time_zone,
            after=await self._start(after, job.definition.time_zone),
            n=checked("n", n, self._caller.bounds.moments),
        )
        explanation = await self._aside.compute(explains)
        lost = what_is_lost(job.definition)
        warnings = (*explanation.warnings, *([f"Occurrences may be lost: {lost}."] if lost else []))
        if job.state is JobState.DELETED:
            warnings = ("It was deleted, and is known until the last of its runs has ended.",)
        if job.definition.parents:
            ends = [f"{edge.parent} {how(edge)}" for edge in edges_of(job.id, job.definition) if edge.child == job.id]
            return replace(explanation, sentence=f"After {', '.join(ends)}.", warnings=warnings)
        return replace(explanation, moments=tuple(await self.next(job_id, n, after)), warnings=warnings)

    @operation(Role.READ, JOB)
    async def why(self, job_id: str) -> Why:
        """Return the reasons that keep the runs of a job from starting, their end if it is known, and the commands that
        mend them.
        """
        job = await self.get(job_id)
        if job.state is JobState.DELETED:
            reading = WhyReading(now=await self._now(), job=job)
        else:
            reading = await reader_on(self._shared).of_job(job)
        why = await self._aside.compute(partial(why_job, reading, job))
        alarm = None if job.definition.expect_within is None else await self._writer.expectations._alarm(job.id)
        if alarm is None:
            return why
        return replace(why, reasons=(overdue(alarm, job.definition.time_zone), *why.reasons))

    @why.within
    async def _why_within(self, sight: Sight, job_id: str) -> Why:
        return await sight.of_why(await self.why(job_id))

    async def _start(self, after: When | None, zone: str) -> Moment:
        return await self._now() if after is None else moment_of("after", after, zone)

    # What has been

    @operation(Role.READ, JOB, gives=list_of(SkipView.made))
    async def skips(self, job_id: str, limit: int = 100) -> Sequence[Skip]:
        """Return the skips of a job (occurrences that became no run), newest first; a deleted job has none."""
        if (await self.get(job_id)).state is JobState.DELETED:
            return ()
        return await self._store.skips(check_job_id(job_id), limit=checked("limit", limit, MOST_LISTED))

    @skips.within
    async def _skips_within(self, sight: Sight, job_id: str, limit: int = 100) -> Sequence[Skip]:
        """Return the skips of a job since it is in its queue."""
        found, moved = await self.skips(job_id, limit), (await self.get(job_id)).definition.moved
        return [skip for skip in found if not sight.scope.queues or skip.first >= (moved or 0)]

    @operation(Role.READ, JOB, gives=LedgerView.made)
    async def ledger(
        self, job_id: str, first: When | None = None, last: When | None = None, limit: int = 100
    ) -> LedgerPage:
        """Return the fate of occurrences from `first` (the oldest that may be known) to `last` (now), oldest first."""
        job, since, until, now = await self._range(job_id, first, last)
        ledger = LedgerOf(self._store, job, now, self._aside)
        return await ledger.page(since, until, checked("limit", limit, MOST_LISTED))

    @ledger.within
    async def _ledger_within(
        self, sight: Sight, job_id: str, first: When | None = None, last: When | None = None, limit: int = 100
    ) -> LedgerPage:
        return await self.ledger(job_id, _since_moved(sight, await self.get(job_id), first), last, limit)

    @operation(Role.READ, JOB, gives=VerifiedView.made)
    async def verify(self, job_id: str, first: When | None = None, last: When | None = None) -> Verified:
        """Check that each occurrence in the range is a run, a skip or pruned; at most 10,000 of them a call."""
        job, since, until, now = await self._range(job_id, first, last)
        return await LedgerOf(self._store, job, now, self._aside).verify(since, until)

    @verify.within
    async def _verify_within(
        self, sight: Sight, job_id: str, first: When | None = None, last: When | None = None
    ) -> Verified:
        return await self.verify(job_id, _since_moved(sight, await self.get(job_id), first), last)

    async def _range(self, job_id: str, first: When | None, last: When | None) -> tuple[Job, Moment, Moment, Moment]:
        """Return the job, a range of its occurrences, and now. Raises `InvalidInput` for an empty or too long range."""
        job, now = await self.get(job_id), await self._now()
        zone = job.definition.time_zone
        since = known_since(job, now) if first is None else moment_of("first", first, zone)
        until = now if last is None else moment_of("last", last, zone)
        check_range(since, until)
        self._caller.bounds.check_years(since, until)
        return job, since, until, now

    @operation(Role.READ, OPEN, gives=list_of(CountView.made))
    async def counts(self, job_id: str) -> Sequence[DailyCount]:
        """Return the number of ended runs and skipped occurrences, by day and outcome, pruned or not.

        All jobs that ever had this id are counted, from the newest `MOST_COUNTED` rows.

        Raises `NotFound` if there was never one.
        """
        checked = check_job_id(job_id)
        counts = await self._store.counts(checked)
        if not counts:
            await self._store.get_job(checked)
        return counts

    @counts.within
    async def _counts_within(self, sight: Sight, job_id: str) -> Sequence[DailyCount]:
        """Count runs of a queue one by one, the newest 20,000. Pruned counts of a job name no queue."""
        if not sight.scope.queues:
            await sight.check_there(job_id)
            return await self.counts(job_id)
        return (await self._counted(sight, check_job_id(job_id)))[0]

    @operation(Role.READ, OPEN, gives=StatisticsView.made)
    async def stats(self, job_id: str) -> Statistics:
        """Return the job's statistics: its counts over all days, and its newest 1,000 ended runs."""
        job = await self.get(job_id)
        states = frozenset({RunState.SUCCEEDED, RunState.FAILED})
        ended = RunFilter(job_id=job.id, states=states, limit=MOST_LISTED, longest=0)
        counts, runs = await asyncio.gather(self._store.counts(job.id), self._store.list_runs(ended))
        return statistics(job.id, counts, runs, job.definition.time_zone)

    @stats.within
    async def _stats_within(self, sight: Sight, job_id: str) -> Statistics:
        if not sight.scope.queues:
            await sight.check_there(job_id)
            return await self.stats(job_id)
        checked_id = check_job_id(job_id)
        counts, runs = await self._counted(sight, checked_id)
        is_there = await sight.sees_id(checked_id)
        zone = (await self.get(checked_id)).definition.time_zone if is_there else self._caller.time_zone
        measured = [run for run in runs if run.state is not RunState.CANCELLED][:MOST_LISTED]
        return statistics(checked_id, counts, measured, zone)

    async def _counted(self, sight: Sight, job_id: JobId) -> tuple[Sequence[DailyCount], Sequence[Run]]:
        """Return the daily counts of the runs in scope, and these runs, newest first."""
        runs, is_all = await self._ended_runs(sight, job_id)
        is_there = await sight.sees_id(job_id)
        if not runs and not is_there:
            raise no_job(job_id)
        looked = 1 if is_all else MOST_COUNTED + 1
        rows = [(day_of(run.ended or Moment(0)), str(run.state), 1, 0, looked) for run in runs]
        skips = await self._skips_within(sight, job_id, MOST_LISTED) if is_there else ()
        rows += [(day_of(skip.last), str(skip.reason), skip.count, 0, 1) for skip in skips]
        return daily_counts(rows), runs

    async def _ended_runs(self, sight: Sight, job_id: JobId) -> tuple[Sequence[Run], bool]:
        """Return the runs of a job within the scope that have ended, newest first, and if these are all."""
        found: list[Run] = []
        wanted = RunFilter(job_id=job_id, states=ENDS, limit=MOST_LISTED, longest=0)
        for _ in range(MOST_PAGES):
            page = await self._store.list_runs(wanted)
            found += [run for run in page if await sight.sees_run(run)]
            if len(page) < MOST_LISTED:
                return found, True
            wanted = replace(wanted, before=page[-1].id)
        return found, False


def reader_on(shared: Shared) -> WhyReader:
    """Return the reader of why nothing starts."""
    doubted = not shared.trusts_time()
    return WhyReader(shared.store, shared.store_of_semaphores, now=shared.now, apart=shared.apart, doubted=doubted)


def _since_moved(sight: Sight, job: Job, first: When | None) -> When | None:
    """Return from when occurrences are shown: since the job is in its queue, if the scope has queues."""
    moved, zone = job.definition.moved, job.definition.time_zone
    if moved is None or not sight.scope.queues:
        return first
    return moved if first is None else max(moment_of("first", first, zone), moved)


def moments_of(job: Job, after: Moment) -> Iterator[tuple[Job, Moment]]:
    """Yield the moments of the schedule, as many as the job has runs remaining."""
    schedule = schedule_for(job)
    left = job.runs_remaining
    while left != 0 and (moment := schedule.next_after(after)) is not None:
        yield job, moment
        after, left = moment, None if left is None else left - 1
