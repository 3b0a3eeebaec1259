"""Reading for notifying: notifiers, jobs, and ends of runs."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.cause import KIND as MUTE
from tokimori.model.cause import MOST_MUTED, cause_id, cause_in, decode_mute
from tokimori.model.document import Document
from tokimori.model.expectation import ALARM_KIND, Alarm, AlarmKind, decode_alarm
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job
from tokimori.model.notification import Occasion, shortened
from tokimori.model.notifier import PREFIX, NotifyOn, is_notifier, name_of, quiet_until
from tokimori.model.notifying import (
    KIND,
    MOST_IDS,
    SUCCESSES,
    Notifying,
    Trouble,
    ZonedNotifier,
    ZonedNotifiers,
    events_at_end,
    newest_of,
    not_after,
    note_trouble,
)
from tokimori.model.run import LONGEST_ERROR
from tokimori.model.transitions import RunState
from tokimori.ports.documents import Documents
from tokimori.ports.ends import LATEST, EndedRun, Endings, EndPlace
from tokimori.ports.store import Jobs, RunFilter, Runs

PAGE = 500
"""Number of ends read in one step."""
MOST_NOTIFIERS = 1_000
"""Number of notifiers looked at."""
MOST_PAGE = 64
FRESH = 5.0
"""Seconds for which read notifiers and jobs are used."""
MOST_JOBS = 10_000
_TOGETHER = 20


class NotifyReadStore(Jobs, Runs, Documents, Endings, Protocol):
    """Questions of reading to the store."""


class KnownJobs:
    """Notifiers and jobs, as they were a few seconds ago."""

    def __init__(self, store: NotifyReadStore) -> None:
        self._store = store
        self._zoned: ZonedNotifiers = {}
        self._looked = float("-inf")
        self._jobs: dict[JobId, tuple[float, Job | None]] = {}
        self.since = Moment(0)
        """When the oldest notifier was added: nothing earlier is notified."""
        self.successes = False
        """If there may be a job that notifies of its successes."""

    async def notifiers(self, at: float, fresh: float = FRESH) -> ZonedNotifiers:
        """Return the notifiers by name, as they were less than `fresh` seconds ago."""
        if at >= self._looked + fresh:
            notifiers = [job for job in await self._notifiers() if job.definition.notifier is not None]
            self._zoned = {name_of(job.id): zoned for job in notifiers if (zoned := _zoned_notifier(job)) is not None}
            self.since = min((job.created for job in notifiers), default=Moment(0))
            self.successes = self.successes or (bool(notifiers) and await self._are_successes_wanted())
            self._looked = at
        return self._zoned

    async def _notifiers(self) -> Sequence[Job]:
        """Return the notifiers. Pages begin small and grow, as a page may also hold large jobs that follow."""
        found: list[Job] = []
        limit = 4
        while len(found) < MOST_NOTIFIERS:
            after = found[-1].id if found else JobId(PREFIX)
            page = await self._store.list_jobs(after=after, limit=limit)
            found += [job for job in page if is_notifier(job.id)]
            if len(page) < limit or not is_notifier(page[-1].id):
                break
            limit = min(MOST_PAGE, limit * 2)
        return found[:MOST_NOTIFIERS]

    async def _are_successes_wanted(self) -> bool:
        try:
            await self._store.get_document(KIND, SUCCESSES)
        except NotFound:
            return False
        return True

    async def job(self, job_id: JobId, at: float, fresh: float = FRESH) -> Job | None:
        """Return the job as it was less than `fresh` seconds ago, or in this step; None: it is gone."""
        known = self._jobs.get(job_id)
        if known is None or (at != known[0] and at >= known[0] + fresh):
            if len(self._jobs) >= MOST_JOBS:
                self._jobs.clear()
            known = self._jobs[job_id] = at, await self._job_or_none(job_id)
        return known[1]

    async def ask(self, job_ids: Collection[JobId], at: float) -> None:
        """Read these jobs, some at a time: one after another would take a second with a distant store."""
        wanted = list(job_ids)
        for start in range(0, len(wanted), _TOGETHER):
            await asyncio.gather(*(self.job(job_id, at) for job_id in wanted[start : start + _TOGETHER]))

    async def _job_or_none(self, job_id: JobId) -> Job | None:
        try:
            return await self._store.get_job(job_id)
        except NotFound:
            return None


def _zoned_notifier(job: Job) -> ZonedNotifier | None:
    notifier, zone = job.definition.notifier, job.definition.time_zone
    if notifier is None:
        return None
    try:
        quiet_until(notifier.quiet, zone, job.created)
    except InvalidInput:  # an early notification is better than none, and it would block all others
        notifier = replace(notifier, quiet=())
    return ZonedNotifier(notifier=notifier, time_zone=zone)


Happened = list[tuple[Occasion, Sequence[str]]]


class NotifyReading(Struct, frozen=True, kw_only=True):
    """Result of a reading: its place, the events with their notifiers, and whether there is more."""

    state: Notifying
    happened: Sequence[tuple[Occasion, Sequence[str]]]
    more: bool = False


class NotifyReader:
    """Reader of the history, in its order and without gaps."""

    def __init__(self, store: NotifyReadStore, known: KnownJobs) -> None:
        self._store = store
        self._known = known

    async def read(self, state: Notifying, now: Moment, at: float) -> NotifyReading:
        """Return the next ends.

        Ends of the last `LATEST` are read again and again, as others may appear before them, and those already notified
        are remembered. If they are more than a page, notifications wait until they are final.
        """
        bound, place = Moment(now - LATEST), EndPlace(state.written, state.tie)
        is_ahead = (
            place.written > now + LATEST
        )  # the clock was set back: some stores write ends by their old time still
        if is_ahead:
            near = await self._store.ended_since(EndPlace(bound), 1)
            if near.found and near.found[0].written <= now + LATEST:
                is_ahead, place = False, EndPlace(bound)
        ends = await self._store.ended_since(place, PAGE)
        final = [each for each in ends.found if each.written < bound or is_ahead]
        is_all = ends.rest is None
        found = ends.found if is_all else final
        await self._known.ask({end.job_id for end in found if self._is_new(end, state)}, at)
        happened: Happened = []
        notified, troubles = dict(state.seen), {job: not_after(each, now) for job, each in state.troubles.items()}
        for end in found:
            if end.id not in notified and (new := await self._occasions(end, troubles.get(end.job_id), at)):
                happened += new
                notified[end.id] = end.written
                for occasion, _ in new:
                    note_trouble(troubles, occasion)
        place = ends.rest if ends.rest is not None and len(final) == len(ends.found) else max(place, EndPlace(bound))
        notified = {run_id: written for run_id, written in notified.items() if written >= place.written}
        read = replace(state, written=place.written, tie=place.tie, seen=notified, troubles=newest_of(troubles))
        unmuted_events, muted = await self._unmuted(await self._with_causes(happened), now)
        kept = {name: each for name, each in read.troubles.items() if name in state.troubles or name not in muted}
        read = replace(read, troubles=kept)
        return NotifyReading(state=read, happened=unmuted_events, more=not is_all and bool(final))

    async def _unmuted(self, happened: Happened, now: Moment) -> tuple[Happened, Collection[JobId]]:
        """Return the events without failures of muted causes, and the jobs of these, whose recovery is not reported."""
        if not any(occasion.cause for occasion, _ in happened):
            return happened, ()
        documents = await self._store.list_documents(MUTE, after="", limit=MOST_MUTED)
        muted = {each.name for each in documents if decode_mute(each.text).until > now}
        is_wanted = [
            occasion.event is not NotifyOn.FAILURE or cause_id(occasion.cause or "") not in muted
            for occasion, _ in happened
        ]
        unmuted = [each for each, is_due in zip(happened, is_wanted, strict=True) if is_due]
        return unmuted, {each[0].job_id for each, is_due in zip(happened, is_wanted, strict=True) if not is_due}

    async def _with_causes(self, happened: Happened) -> Happened:
        """Return the events with a cause for each failure that has notifiers."""
        found: Happened = []
        for start in range(0, len(happened), _TOGETHER):
            some = happened[start : start + _TOGETHER]
            causes = await asyncio.gather(*(self._cause_of(occasion, names) for occasion, names in some))
            found += [(replace(each[0], cause=cause), each[1]) for each, cause in zip(some, causes, strict=True)]
        return found

    async def _cause_of(self, occasion: Occasion, names: Sequence[str]) -> str | None:
        if not names or occasion.run_id is None or occasion.event not in (NotifyOn.FAILURE, NotifyOn.PARKED):
            return None
        with suppress(NotFound):  # it was pruned at once
            return cause_in(await self._store.get_run(occasion.run_id))
        return None

    def _is_new(self, end: EndedRun, state: Notifying) -> bool:
        return end.id not in state.seen and self._concerns(end, state.troubles.get(end.job_id))

    def _concerns(self, end: EndedRun, trouble: Trouble | None) -> bool:
        """Return if the end of the run may cause a notification. The job of the run is not read for that."""
        if is_notifier(end.job_id):
            return False
        is_good = end.state is RunState.SUCCEEDED
        return end.state is RunState.FAILED or (is_good and (trouble is not None or self._known.successes))

    async def _occasions(
        self, end: EndedRun, trouble: Trouble | None, at: float
    ) -> list[tuple[Occasion, Sequence[str]]]:
        if not self._concerns(end, trouble):
            return []
        job = await self._known.job(end.job_id, at)
        if job is not None and end.state is RunState.FAILED and NotifyOn.PARKED in job.definition.notify:
            job = await self._known.job(end.job_id, at, fresh=0)  # this end may be the one that has parked it
        if job is None or job.incarnation != end.incarnation:
            return []
        moment, error = end.ended or end.written, shortened(end.error)
        return [
            (
                Occasion(
                    event=event,
                    job_id=job.id,
                    at=moment,
                    run_id=end.id,
                    error=error,
                    since=None if event is NotifyOn.SUCCESS else _since(trouble, moment),
                ),
                job.definition.notify.get(event, ()),
            )
            for event in events_at_end(job, end.state, moment, trouble)
        ]


def _since(trouble: Trouble | None, at: Moment) -> Moment:
    return at if trouble is None else trouble.began


ALARMS = 100
HELD = 20
"""Number of alarms and held runs looked at in one step: a run may have a payload of a megabyte."""
EVERY = 5.0
"""Seconds from the end of one walk through them to the next."""
MOST = 500
"""Number of alarms, and of held runs, notified while they last. Others are notified when some of these have ended."""
ELSEWHERE = "elsewhere"


class TroubleStore(Runs, Documents, Protocol):
    """Questions to the store."""


class LastingTrouble:
    """Walk through alarms and held runs. Its position is known only here: another node begins anew."""

    def __init__(self, store: TroubleStore, known: KnownJobs) -> None:
        self._store = store
        self._known = known
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._alarm = ""
        self._alarms: dict[JobId, str] = {}
        self._run: RunId | None = None
        self._held: dict[RunId, int] = {}
        self._next_alarms = self._next_held = float("-inf")

    async def read(self, reading: NotifyReading, now: Moment, at: float) -> NotifyReading:
        """Return the reading with a page of lasting alarms and held runs."""
        if at >= self._next_alarms:
            reading = await self._read_alarms(reading, now, at)
        if at >= self._next_held:
            reading = await self._read_held(reading, now, at)
        return reading

    # What is overdue

    async def _read_alarms(self, reading: NotifyReading, now: Moment, at: float) -> NotifyReading:
        page = await self._store.list_documents(ALARM_KIND, after=self._alarm, limit=ALARMS)
        overdue, troubles, happened = dict(reading.state.overdue), dict(reading.state.troubles), Happened()
        room = MOST_IDS - sum(map(len, overdue))
        for alarm in filter(None, map(_alarm_in, page)):
            name, mark = JobId(alarm.name), f"{'job' if alarm.of_job else ELSEWHERE} {alarm.since}"
            self._alarms[name] = mark
            if overdue.get(name) != mark and (name in overdue or (len(overdue) < MOST and len(name) <= room)):
                since = _since(troubles.get(name), now)
                occasion = Occasion(event=NotifyOn.OVERDUE, job_id=name, at=now, error=_alarm_text(alarm), since=since)
                if names := await self._names(occasion, at, elsewhere=not alarm.of_job):
                    room -= 0 if name in overdue else len(name)
                    overdue[name] = mark
                    happened.append((occasion, names))
                    note_trouble(troubles, occasion)
        if len(page) < ALARMS:
            for job_id in overdue.keys() - self._alarms.keys():
                elsewhere = overdue.pop(job_id).startswith(ELSEWHERE)
                happened += await self._recovered(job_id, troubles, now, at, elsewhere=elsewhere)
            self._alarm, self._alarms, self._next_alarms = "", {}, at + EVERY
        else:
            self._alarm = page[-1].name
        state = replace(reading.state, overdue=overdue, troubles=newest_of(troubles))
        return replace(reading, state=state, happened=[*reading.happened, *happened])

    async def _recovered(
        self, job_id: JobId, troubles: dict[JobId, Trouble], now: Moment, at: float, *, elsewhere: bool
    ) -> Happened:
        """Return a recovery if the job was reported as overdue, else nothing."""
        trouble = troubles.get(job_id)
        if trouble is None or trouble.event is not NotifyOn.OVERDUE:
            return []
        occasion = Occasion(event=NotifyOn.RECOVERY, job_id=job_id, at=now, since=trouble.began)
        note_trouble(troubles, occasion)
        return [(occasion, await self._names(occasion, at, elsewhere=elsewhere))]

    # What is held

    async def _read_held(self, reading: NotifyReading, now: Moment, at: float) -> NotifyReading:
        wanted = RunFilter(states=frozenset({RunState.HELD}), before=self._run, limit=HELD, longest=LONGEST_ERROR)
        page = await self._store.list_runs(wanted)
        held, happened = dict(reading.state.held), Happened()
        for run in page:
            self._held[run.id] = run.attempt
            if is_notifier(run.job_id) or held.get(run.id) == run.attempt or len(held) >= MOST:
                continue
            error = shortened(run.error)
            occasion = Occasion(event=NotifyOn.HELD, job_id=run.job_id, at=now, run_id=run.id, error=error)
            if names := await self._names(occasion, at):
                held[run.id] = run.attempt
                happened.append((occasion, names))
        if len(page) < HELD:
            held = {run_id: attempt for run_id, attempt in held.items() if run_id in self._held}
            self._run, self._held, self._next_held = None, {}, at + EVERY
        else:
            self._run = page[-1].id
        return replace(reading, state=replace(reading.state, held=held), happened=[*reading.happened, *happened])

    async def _names(self, occasion: Occasion, at: float, *, elsewhere: bool = False) -> Sequence[str]:
        """Return the names of the notifiers for an occasion.

        There are none if the job is gone. Expectations of programs elsewhere have notifiers of their own.
        """
        if elsewhere:
            return [name for name, each in (await self._known.notifiers(at)).items() if each.notifier.elsewhere]
        job = await self._known.job(occasion.job_id, at)
        return () if job is None else job.definition.notify.get(occasion.event, ())


def _alarm_in(document: Document) -> Alarm | None:
    """Return the alarm in the document, or None if another version wrote it."""
    try:
        return decode_alarm(document.text)
    except ValueError:
        return None


def _alarm_text(alarm: Alarm) -> str | None:
    if alarm.log is not None:
        return shortened(alarm.log)
    if alarm.kind is AlarmKind.FAILED:
        return "it has reported a failure"
    return f"nothing has ended well since {format_moment(alarm.last_good or alarm.expected_by)}"
