"""Everything that a door can ask for."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import islice
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec import structs
from msgspec.structs import replace

from tokimori.clock import Moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.model.calendar import decode_days_off
from tokimori.model.dependents import Edge
from tokimori.model.expectation import Alarm, Expectation
from tokimori.model.ids import RunId, check_job_id, check_uuid
from tokimori.model.job import Job, JobState, edges_of
from tokimori.model.lanes import Pause
from tokimori.model.ledger import known_since
from tokimori.model.retention import DailyCount
from tokimori.model.run import Skip
from tokimori.model.statistics import Statistics, statistics
from tokimori.model.transitions import RunState
from tokimori.model.words import check_text, check_word
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import RunFilter, SchemaStatus
from tokimori.schedules.business_days import Shift
from tokimori.schedules.explain import Explanation, explain, explained
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.zones import check_zone
from tokimori.service.aside import AT_ONCE
from tokimori.service.asking import MOST_LISTED, checked, chosen
from tokimori.service.audit import Audit
from tokimori.service.calendars import Calendars
from tokimori.service.channels.channels import Channels
from tokimori.service.days_off import read_days_off
from tokimori.service.doctor.finding import Diagnosis, diagnosis
from tokimori.service.doctor.reader import DoctorReader as DoctorsReader
from tokimori.service.doctor.rules import findings
from tokimori.service.drained import nodes_of
from tokimori.service.events.events import Events
from tokimori.service.expectations import Expectations
from tokimori.service.finding import FoundJobs, FoundRuns, JobSearch, RunSearch, find_jobs, find_runs
from tokimori.service.given import When, flag_of, many, moment_of, zone_of
from tokimori.service.graph import around, check_few, direct, how
from tokimori.service.jobs import schedule_for
from tokimori.service.ledger import LedgerOf, LedgerPage, Verified, check_range
from tokimori.service.operation import Async, Part
from tokimori.service.orders import Orders
from tokimori.service.queues import Queues, binding
from tokimori.service.repeating import RepeatingService
from tokimori.service.secrets import Secrets
from tokimori.service.semaphores import Semaphores
from tokimori.service.shown import Facts, Shown
from tokimori.service.tasks import Tasks
from tokimori.service.tokens import Tokens
from tokimori.service.why.job import overdue, what_is_lost, why_job
from tokimori.service.why.reader import WhyReader
from tokimori.service.why.reading import WhyReading
from tokimori.service.why.reasons import Why
from tokimori.service.why.run import why_run
from tokimori.service.why.stops import stopped

_EVER = parse_moment("9999-12-31T23:59:59Z")


PARTS: Final[Mapping[str, type[Part[Any]]]] = MappingProxyType(
    {
        kind.noun: kind
        for kind in (
            *(Audit, Calendars, Channels, Events, Expectations, Orders, Queues, Secrets, Semaphores, Tasks, Tokens),
        )
    }
)
"""The parts of the service by noun. Claims are a part of those clients and doors alone that have a place for them."""


class Service(RepeatingService):
    """One store as people and programs use it.

    Every method may raise `StoreError`; those that name a job or a run raise `NotFound` where there is none.
    """

    def _act_as(self, author: str | None) -> None:
        super()._act_as(author)
        self.channels: Channels[Async] = Channels(self._store, self._topics, self._now, self._random, author)
        self.orders: Orders[Async] = Orders(self, self._store, self._now, self._random, author)

    async def now(self) -> Moment:
        """Return the store's time, by which nodes fire. This machine's clock may be set wrong."""
        return await self._now()

    async def find_jobs(self, wanted: JobSearch) -> FoundJobs:
        """Return the jobs that are wanted, by id. At most 20,000 are looked at: it may find few, and say where to go
        on.
        """
        return await find_jobs(self.list, self.get, wanted)

    async def find_runs(self, wanted: RunSearch, *, longest: int | None = None) -> FoundRuns:
        """Return the runs that are wanted, newest first. At most 20,000 are looked at, 8 MB of them, and 1,000 jobs.

        `longest`: of texts such as payloads those of more bytes are left out, with 0 all of them.
        """
        return await find_runs(self.list_runs, self.get, wanted, longest=longest)

    async def next_times(self, job_id: str, n: int = 10, after: When | None = None) -> Sequence[Moment]:
        """Return the next moments of the job's schedule, whatever its state; at most as many as it has runs remaining.

        `after` is an aware datetime, a text (without offset a time in the job's zone) or a moment; now by default.
        """
        job = await self.get(job_id)
        start = await self._start(after, job.definition.time_zone)
        return await self._next_of(job, start, checked("n", n, self._bounds.moments))

    async def _next_of(self, job: Job, start: Moment, wanted: int) -> Sequence[Moment]:
        if job.state is JobState.DELETED:
            return []

        def found() -> Sequence[Moment]:
            return [moment for _, moment in islice(_moments(job, start), wanted)]

        return found() if wanted <= AT_ONCE else await self._aside.compute(found)

    async def shown(self, job_id: str, n: int = 5) -> Shown:
        """Return the job with all that is shown with it, and its next `n` moments. The store is asked all of it at
        once.
        """
        wanted, now = checked("n", n, self._bounds.moments), await self._now()
        mark = self._foreseen.mark() if self._semaphore_store is None else None
        if (known := self._foreseen.unchanged(check_job_id(job_id), mark, now, wanted)) is not None:
            return known
        job, family, pauses = await asyncio.gather(self.get(job_id), self._store.family(), self.queues.pauses())
        facts = Facts(
            job=job,
            edges=direct(family.edges, job.id),
            pauses=binding(job.definition.queue, pauses),
            too_heavy=tuple([each.text for each in await self._weights.too_heavy(job.definition)]),
        )
        shown = self._foreseen.find(facts, now, wanted)
        if shown is None:
            moments = () if stopped(job) else await self._next_of(job, now, wanted)
            shown = Shown(facts=facts, moments=moments)
        self._foreseen.keep(shown, mark, now, wanted)
        return shown

    async def _start(self, after: When | None, zone: str) -> Moment:
        return await self._now() if after is None else moment_of("after", after, zone)

    async def upcoming(self, n: int = 20, after: When | None = None) -> Sequence[tuple[Job, Moment]]:
        """Return the next moments of all enabled jobs together, soonest first.

        Of over 1,000 such jobs only those are looked at that are due first.
        """
        wanted, start = checked("n", n, MOST_LISTED), await self._start(after, self.time_zone)
        jobs = [due.job for due in await self._store.due(_EVER, MOST_LISTED)]

        def found() -> Sequence[tuple[Job, Moment]]:
            merged = merge(*(_known_moments(job, start) for job in jobs), key=lambda pair: (pair[1], pair[0].id))
            return list(islice(merged, wanted))

        return await self._aside.compute(found)

    async def explain(
        self,
        text: str,
        time_zone: str | ZoneInfo | None = None,
        n: int = 5,
        after: When | None = None,
        *,
        gap: str = Gap.SHIFT,
        fold: str = Fold.FIRST,
        calendars: Sequence[str] = (),
        shift: str | None = None,
    ) -> Explanation:
        """Explain the text of a schedule for a job that is added now. Raises `InvalidInput`."""
        check_text("text", text)
        zone = self.time_zone if time_zone is None else check_zone(zone_of(time_zone))
        names = many("calendars", calendars, "names of calendars")
        days = await read_days_off(self._calendars, [_word("calendars", name) for name in names])
        explains = partial(
            explain,
            text,
            zone=zone,
            after=await self._start(after, zone),
            n=checked("n", n, self._bounds.moments),
            gap=chosen(Gap, "gap", gap),
            fold=chosen(Fold, "fold", fold),
            days_off=None if days.text is None else decode_days_off(days.text),
            shift=None if shift is None else chosen(Shift, "shift", shift),
        )
        return await self._aside.compute(explains)

    async def explain_job(self, job_id: str, n: int = 5, after: When | None = None) -> Explanation:
        """Explain the schedule of a job, with the next moments as `next_times` gives them.

        Whether anything of it starts is what `why_job` says.
        """
        job = await self.get(job_id)
        explains = partial(
            explained,
            job.definition.schedule or "on demand",
            schedule_for(job),
            zone=job.definition.time_zone,
            after=await self._start(after, job.definition.time_zone),
            n=checked("n", n, self._bounds.moments),
        )
        explanation = await self._aside.compute(explains)
        lost = what_is_lost(job.definition)
        warnings = (*explanation.warnings, *([f"Occurrences may be lost: {lost}."] if lost else []))
        if job.state is JobState.DELETED:
            warnings = ("It was deleted, and is known until the last of its runs has ended.",)
        if job.definition.parents:
            ends = [f"{edge.parent} {how(edge)}" for edge in edges_of(job.id, job.definition) if edge.child == job.id]
            return replace(explanation, sentence=f"After {', '.join(ends)}.", warnings=warnings)
        return replace(explanation, moments=tuple(await self.next_times(job_id, n, after)), warnings=warnings)

    async def pauses_of(self, job_id: str) -> Sequence[Pause]:
        """Return the pauses of the job's queue and of everything, whatever the state of the job itself."""
        return binding((await self.get(job_id)).definition.queue, await self.queues.pauses())

    async def too_heavy(self, job_id: str) -> Sequence[str]:
        """Return a sentence for each weight of the job above its semaphore's limit: until that is raised no run
        starts.
        """
        return tuple([each.text for each in await self._weights.too_heavy((await self.get(job_id)).definition)])

    async def why_run(self, run_id: str) -> Why:
        """Return what keeps a run from starting, or from a retry, and what mends it; no reasons if nothing does."""
        run = await self._store.get_run(RunId(check_uuid(run_id, field="run")))
        job = (await self._jobs_of([run])).get(run.job_id)
        return why_run(await self._reader.of_run(run, job), run)

    async def why_job(self, job_id: str) -> Why:
        """Return what keeps the runs of a job from starting, when it runs by itself, and what mends it."""
        job = await self.get(job_id)
        if job.state is JobState.DELETED:
            reading = WhyReading(now=await self._now(), job=job)
        else:
            reading = await self._reader.of_job(job)
        why = await self._aside.compute(partial(why_job, reading, job))
        alarm = None if job.definition.expect_within is None else await self.expectations._alarm(job.id)
        if alarm is None:
            return why
        return structs.replace(why, reasons=(overdue(alarm, job.definition.time_zone), *why.reasons))

    @property
    def _reader(self) -> WhyReader:
        apart, doubted = self._semaphore_store is not None, not self._trusts_time()
        return WhyReader(self._store, self._store_of_semaphores, now=self._now, apart=apart, doubted=doubted)

    async def skips(self, job_id: str, limit: int = 100) -> Sequence[Skip]:
        """Return the skips of a job (occurrences that became no run), newest first; a deleted job has none."""
        if (await self.get(job_id)).state is JobState.DELETED:
            return ()
        return await self._store.skips(check_job_id(job_id), limit=checked("limit", limit, MOST_LISTED))

    async def ledger(
        self, job_id: str, first: When | None = None, last: When | None = None, limit: int = 100
    ) -> LedgerPage:
        """Return the fate of occurrences from `first` (the oldest that may be known) to `last` (now), oldest first."""
        job, since, until, now = await self._range(job_id, first, last)
        ledger = LedgerOf(self._store, job, now, self._aside)
        return await ledger.page(since, until, checked("limit", limit, MOST_LISTED))

    async def verify(self, job_id: str, first: When | None = None, last: When | None = None) -> Verified:
        """Check that each occurrence in the range is a run, a skip or pruned; at most 10,000 of them a call."""
        job, since, until, now = await self._range(job_id, first, last)
        return await LedgerOf(self._store, job, now, self._aside).verify(since, until)

    async def _range(self, job_id: str, first: When | None, last: When | None) -> tuple[Job, Moment, Moment, Moment]:
        """Return the job, a range of its occurrences, and now. Raises `InvalidInput` for an empty range, or too long a
        one.
        """
        job, now = await self.get(job_id), await self._now()
        zone = job.definition.time_zone
        since = known_since(job, now) if first is None else moment_of("first", first, zone)
        until = now if last is None else moment_of("last", last, zone)
        check_range(since, until)
        self._bounds.check_years(since, until)
        return job, since, until, now

    async def graph(self, job_id: str | None = None) -> Sequence[Edge]:
        """Return the edges between jobs, by parent; with an id those above and below that job: of over 10,000 the
        nearest.

        Raises `Refused` where all are over 10,000.
        """
        checked_id = None if job_id is None else (await self.get(job_id)).id
        edges = (await self._store.family()).edges
        if checked_id is not None:
            return await self._aside.compute(lambda: around(edges, checked_id))
        check_few(edges)
        return sorted(edges)

    async def counts(self, job_id: str) -> Sequence[DailyCount]:
        """Return the number of ended runs and skipped occurrences, by day and outcome, pruned or not.

        All jobs that ever had this id are counted, of over `MOST_COUNTED` kept rows the newest.

        Raises `NotFound` if there was never one.
        """
        checked = check_job_id(job_id)
        counts = await self._store.counts(checked)
        if not counts:
            await self._store.get_job(checked)
        return counts

    async def statistics(self, job_id: str) -> Statistics:
        """Return the job's statistics: its counts over all days, and its newest 1,000 ended runs."""
        job = await self.get(job_id)
        states = frozenset({RunState.SUCCEEDED, RunState.FAILED})
        ended = RunFilter(job_id=job.id, states=states, limit=MOST_LISTED, longest=0)
        counts, runs = await asyncio.gather(self._store.counts(job.id), self._store.list_runs(ended))
        return statistics(job.id, counts, runs, job.definition.time_zone)

    async def ping(self, name: str, report: str = "ok", log: str | None = None) -> Expectation:
        """Report of something elsewhere, or of a job from outside: `ok`, `start` or `fail`; `log` is what it wrote.

        A good end takes back its alarm, a failure raises one within seconds. Raises `InvalidInput`, and `NotFound`
        where nothing is expected.
        """
        return await self.expectations._ping(name, report, log)

    async def alarms(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Alarm]:
        """Return alarms by name, from the first name behind `after`."""
        return await self.expectations._alarms_page(after, limit)

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return all nodes and programs: the living ones first, then those that left or died."""
        return await nodes_of(self._store)

    async def schema(self) -> SchemaStatus:
        """Return the version of the store's schema, and which migrations are pending."""
        return await self._store.schema()

    async def doctor(self) -> Diagnosis:
        """Check the store and its nodes: one finding for each check, also if all is well.

        It looks twice, `LISTEN` seconds apart where nodes are alive, so that what is under way is no fault.
        """
        reading = await self._doctors_reader.read()
        return await self._aside.compute(lambda: diagnosis(findings(reading)))

    @property
    def _doctors_reader(self) -> DoctorsReader:
        return DoctorsReader(
            self._store,
            self._store_of_semaphores,
            self.tokens.list,
            alarms=self.alarms,
            clock=self._clock,
            apart=self._semaphore_store is not None,
            rest=asyncio.sleep,
        )

    async def migrate(self) -> SchemaStatus:
        """Apply the migrations that are pending. Raises `SchemaMismatch` for a newer schema."""
        return await self._store.migrate()

    async def schema_script(self, *, whole: bool = False) -> str:
        """Return the SQL of the pending migrations, or (`whole`) all SQL for an empty store. Raises `Refused`."""
        return await self._store.script(whole=flag_of("whole", whole))

    async def check_schema(self) -> Sequence[str]:
        """Return the differences between the store's tables and those of this version, a sentence each. Raises
        `Refused`.
        """
        return await self._store.differences()


def _word(field: str, given: object) -> str:
    check_word(field, given)
    return str(given)


def _moments(job: Job, after: Moment) -> Iterator[tuple[Job, Moment]]:
    schedule = schedule_for(job)
    left = job.runs_remaining
    while left != 0 and (moment := schedule.next_after(after)) is not None:
        yield job, moment
        after, left = moment, None if left is None else left - 1


def _known_moments(job: Job, after: Moment) -> Iterator[tuple[Job, Moment]]:
    """Yield the same; none of a schedule that can't be read here, such as one in a zone of which nothing is known
    here.
    """
    with suppress(InvalidInput):
        yield from _moments(job, after)
