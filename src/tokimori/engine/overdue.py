"""Overdue: walk over the expectations, look at those whose time is over, and raise and clear alarms.

Nodes walk at different times. A look by one node puts off the next look, so the others skip that expectation.
"""

import logging
from asyncio import gather
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import HOUR, Moment
from tokimori.errors import Conflict, NotFound
from tokimori.model.document import Document
from tokimori.model.expectation import (
    ALARM_KIND,
    KIND,
    RELOOK,
    SETTLED,
    Alarm,
    Expectation,
    decode_alarm,
    decode_expectation,
    encode_alarm,
    encode_expectation,
    looked_at,
    no_later,
    rested,
    settling,
    wants_a_look,
)
from tokimori.model.ids import JobId, NodeId
from tokimori.model.job import Job, JobState
from tokimori.model.retention import first_id_at
from tokimori.model.target import Unreadable
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.documents import Documents
from tokimori.ports.store import Jobs, RunFilter, Runs
from tokimori.schedules.schedule import Schedule

log = logging.getLogger(__name__)

PAGE = 100
"""Number of expectations read in one step."""
MOST = 25
"""Number of expectations looked at in one step, each in a few short transactions."""
PAUSE = 0.1
"""Seconds to the next step of a walk. A hundred thousand expectations take two minutes."""
REST = 4.0
"""Seconds to the next walk."""
IDLE = 75.0
"""Seconds to the next walk if nothing is expected, unless a notice of a change comes before."""
NAMED = 3
"""Number of alarms named in one line of the log."""
NEWEST = (20, 1_000)
"""Numbers of the newest ended runs that are searched for one that succeeded: first a few, then at most the second."""


class OverdueStore(Documents, Jobs, Runs, Protocol):
    """Questions to the store."""


class Overdue:
    """Walk over expectations, a page with each call of `step`. `schedule_for` gives the schedule of a job."""

    def __init__(self, store: OverdueStore, at: float, schedule_for: Callable[[Job], Schedule]) -> None:
        self._store = store
        self._schedule_for = schedule_for
        self._after = ""
        self._is_idle = False
        self.next_at = at

    def wake(self, at: float) -> None:
        """Note that the store has changed: an expectation may be new."""
        if self._is_idle:
            self._is_idle, self.next_at = False, min(self.next_at, at + REST)

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        self.next_at = at + PAUSE
        page = await self._store.list_documents(KIND, after=self._after, limit=PAGE)
        due = [each for each in page if _wants_a_look(each, now)]
        raised = [
            each
            for each in await gather(*(self._look_at_expectation(each, now) for each in due[:MOST]))
            if each is not None
        ]
        if raised:
            log.warning("should have ended well by now: %s", _listed(raised))
        if len(due) > MOST:
            self._after = due[MOST - 1].name
        elif len(page) == PAGE:
            self._after = page[-1].name
        else:
            self._is_idle = not self._after and not page
            self._after, self.next_at = "", at + (IDLE if self._is_idle else REST)
        return False

    async def _look_at_expectation(self, document: Document, now: Moment) -> Alarm | None:
        """Look at one expectation; return the alarm that was raised. A failure hinders no other, and is retried."""
        try:
            known = no_later(decode_expectation(document.text), now)
            raised = await self._alarm_of(known.name)
            found = await self._of_job(known, raised, now) if known.of_job else looked_at(known, now)
            if found is None:
                await self._take_back(raised)
                await self._store.delete_document(KIND, document.name, document.version)
                return None
            after, alarm = found
            after = settling(after, now) if known.of_job else after
            if raised is not None:  # it is cleared after the look: if the node dies between, the next one clears it
                after = replace(after, look_at=min(after.look_at, Moment(now + RELOOK)))
            written = replace(document, text=encode_expectation(after), version=document.version + 1)
            await self._store.put_document(written, document.version)
            if alarm is None:
                await self._take_back(raised)
                return None
            return await self._raise(alarm, raised, written.version)
        except Conflict:  # another node has looked, or somebody has reported; or there is an alarm
            return None
        except Exception as fault:
            log.warning("can't check if %s is overdue: %s", document.name, fault)
            return None

    async def _raise(self, alarm: Alarm, raised: Document | None, version: int) -> Alarm | None:
        """Store the alarm, and return it if it is new. If there is one already, only its facts are renewed."""
        if raised is None:
            raised = Document(kind=ALARM_KIND, name=alarm.name, text=encode_alarm(alarm), version=version)
            await self._store.put_document(raised, None)
            return alarm if await self._is_still_expected(raised) else None
        text = encode_alarm(replace(alarm, since=decode_alarm(raised.text).since))
        if text != raised.text:
            await self._store.put_document(replace(raised, text=text, version=raised.version + 1), raised.version)
        return None

    async def _is_still_expected(self, raised: Document) -> bool:
        """Return if the expectation of the new alarm still exists. If not, take the alarm back."""
        try:
            await self._store.get_document(KIND, raised.name)
        except NotFound:
            await self._take_back(raised)
            return False
        return True

    async def _alarm_of(self, name: str) -> Document | None:
        try:
            return await self._store.get_document(ALARM_KIND, name)
        except NotFound:
            return None

    async def _take_back(self, alarm: Document | None) -> None:
        if alarm is not None:
            await self._store.delete_document(ALARM_KIND, alarm.name, alarm.version)
            log.info("%s has recovered", alarm.name)

    async def _of_job(
        self, known: Expectation, raised: Document | None, now: Moment
    ) -> tuple[Expectation, Alarm | None] | None:
        """Return the expectation of a job now, and its alarm; None if nothing is expected of it any more."""
        try:
            job = await self._store.get_job(JobId(known.name))
        except NotFound:
            job = None
        later = Moment(now + HOUR)
        if job is not None and isinstance(
            job.definition.target, Unreadable
        ):  # a version that can read it knows its expectation
            return replace(known, look_at=later), None if raised is None else decode_alarm(raised.text)
        if job is None or (within := job.definition.expect_within) is None:  # it may be written right now
            return (replace(known, look_at=later), None) if now < known.touched + SETTLED else None
        if job.state is JobState.PAUSED:
            return rested(known, now, later), None
        good = await self._good_end(job, now)
        known = replace(
            known,
            within=within,
            since=max(known.since, job.created),
            good=max((each for each in (known.good, good) if each is not None), default=None),
        )
        due = self._schedule_for(job).next_after(known.base)
        if job.state is JobState.FINISHED and (due is None or due > job.fired_through):
            return rested(known, now, later), None
        return looked_at(known, now, due)

    async def _good_end(self, job: Job, now: Moment) -> Moment | None:
        """Return the last good end that is known, without those after now, which a clock ahead has written.

        A search without bound would grow with the history: it passes all runs that failed since.
        """
        soon = Moment(now + SETTLED)
        for most in NEWEST:
            wanted = RunFilter(job_id=job.id, states=ENDS, before=first_id_at(soon), limit=most, longest=0)
            runs = await self._store.list_runs(wanted)
            ends = [
                min(run.ended, now)
                for run in runs
                if run.state is RunState.SUCCEEDED
                and run.ended is not None
                and run.ended <= soon
                and run.incarnation == job.incarnation
            ]
            if ends or len(runs) < most:
                return max(ends, default=None)
        return None


def _listed(alarms: Sequence[Alarm]) -> str:
    """Return a text with the first alarms, and the number of the others."""
    words = [f"{'job ' if each.of_job else ''}{each.name} ({each.kind})" for each in alarms[:NAMED]]
    others = len(alarms) - NAMED
    return ", ".join(words) + (f" and {others} more" if others > 0 else "")


def _wants_a_look(document: Document, now: Moment) -> bool:
    """Return if it is time to look at the expectation. One that a newer version has written is skipped."""
    try:
        return wants_a_look(decode_expectation(document.text), now)
    except ValueError:
        return False
