"""Lasting trouble that notifying reports: overdue jobs and held runs. A step looks at a page of each."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.engine.notify_reading import KnownJobs, NotifyReading
from tokimori.model.document import Document
from tokimori.model.expectation import ALARM_KIND, Alarm, AlarmKind, decode_alarm
from tokimori.model.ids import JobId, RunId
from tokimori.model.notification import Occasion, shortened
from tokimori.model.notifier import NotifyOn, is_notifier
from tokimori.model.notifying import MOST_IDS, Trouble, newest_of, note_trouble
from tokimori.model.run import LONGEST_ERROR
from tokimori.model.transitions import RunState
from tokimori.ports.documents import Documents
from tokimori.ports.store import RunFilter, Runs

ALARMS = 100
HELD = 20
"""So many alarms and held runs are looked at in one step: a run may have a payload of a megabyte."""
EVERY = 5.0
"""Seconds from the end of one walk through them to the next."""
MOST = 500
"""So many of each are told of while they last. What is more is told of when others have ended."""
ELSEWHERE = "elsewhere"
Happened = list[tuple[Occasion, Sequence[str]]]


class StandingStore(Runs, Documents, Protocol):
    """Questions to the store."""


class LastingTrouble:
    """Walks through alarms and held runs. How far it is is known only here: another node begins anew."""

    def __init__(self, store: StandingStore, known: KnownJobs) -> None:
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
        """Return the reading with a page of what lasts."""
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
                occasion = Occasion(event=NotifyOn.OVERDUE, job_id=name, at=now, error=_said(alarm))
                if names := await self._names(occasion, at, elsewhere=not alarm.of_job):
                    room -= 0 if name in overdue else len(name)
                    overdue[name] = mark
                    happened.append((occasion, names))
                    note_trouble(troubles, occasion)
        if len(page) < ALARMS:
            for job_id in overdue.keys() - self._alarms.keys():
                elsewhere = overdue.pop(job_id).startswith(ELSEWHERE)
                happened += await self._come(job_id, troubles, now, at, elsewhere=elsewhere)
            self._alarm, self._alarms, self._next_alarms = "", {}, at + EVERY
        else:
            self._alarm = page[-1].name
        state = replace(reading.state, overdue=overdue, troubles=newest_of(troubles))
        return replace(reading, state=state, happened=[*reading.happened, *happened])

    async def _come(
        self, job_id: JobId, troubles: dict[JobId, Trouble], now: Moment, at: float, *, elsewhere: bool
    ) -> Happened:
        """Return the end of an alarm: a success of a job that was reported overdue. A failure ends none."""
        trouble = troubles.get(job_id)
        if trouble is None or trouble.event is not NotifyOn.OVERDUE:
            return []
        occasion = Occasion(event=NotifyOn.RECOVERY, job_id=job_id, at=now)
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
            held = _still(held, self._held)
            self._run, self._held, self._next_held = None, {}, at + EVERY
        else:
            self._run = page[-1].id
        return replace(reading, state=replace(reading.state, held=held), happened=[*reading.happened, *happened])

    async def _names(self, occasion: Occasion, at: float, *, elsewhere: bool = False) -> Sequence[str]:
        """Return the notifiers for an occasion; none if the job is gone. What runs elsewhere has notifiers that ask for
        it.
        """
        if elsewhere:
            return [name for name, each in (await self._known.tellers(at)).items() if each.notifier.elsewhere]
        job = await self._known.job(occasion.job_id, at)
        return () if job is None else job.definition.notify.get(occasion.event, ())


def _alarm_in(document: Document) -> Alarm | None:
    """None where it is one of another version."""
    try:
        return decode_alarm(document.text)
    except ValueError:
        return None


def _said(alarm: Alarm) -> str | None:
    if alarm.log is not None:
        return shortened(alarm.log)
    if alarm.kind is AlarmKind.FAILED:
        return "it has reported a failure"
    return f"nothing has ended well since {format_moment(alarm.last_good or alarm.expected_by)}"


def _still(held: Mapping[RunId, int], seen: Mapping[RunId, int]) -> dict[RunId, int]:
    return {run_id: attempt for run_id, attempt in held.items() if run_id in seen}
