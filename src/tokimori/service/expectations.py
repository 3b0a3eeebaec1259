"""Expectations of jobs, and of reports from elsewhere: a dead man's switch (docs/reference/alarms.md)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import assert_never

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role
from tokimori.model.expectation import (
    ALARM_KIND,
    KIND,
    RARELY,
    RELOOK,
    Alarm,
    Expectation,
    decode_alarm,
    decode_expectation,
    encode_alarm,
    encode_expectation,
    expected_by,
    no_later,
)
from tokimori.model.ids import JOB_ID_ALLOWED, JobId, RandomBytes, check_job_id
from tokimori.model.job import Definition, Job
from tokimori.model.sizes import check_size
from tokimori.model.words import DOTS, check_text
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.access import EXPECTATION, OPEN, Sight, by_id
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.operation import MADE, STATE, M, Part, operation
from tokimori.service.store_calls import Now, retried
from tokimori.service.validation import MOST_LISTED, Span, checked, chosen, seconds_of
from tokimori.service.views.alarms import Alarm as AlarmView
from tokimori.service.views.alarms import Expectation as ExpectationView
from tokimori.service.views.outside import list_of

EXPECTATIONS = DocumentKind(KIND, encode_expectation, decode_expectation)
ALARMS = DocumentKind(ALARM_KIND, encode_alarm, decode_alarm)
MOST_LOG = 2_000
"""Number of the last characters of a report that are stored: those say how it ended."""
MOST_DESCRIPTION = 1_000


class Report(StrEnum):
    """Kinds of reports from elsewhere."""

    OK = "ok"
    """It has ended well."""
    START = "start"
    FAIL = "fail"


class Expectations(Part[M]):
    """Expectations of good ends. Every method may raise `StoreError`."""

    noun, word = "expectations", "expectation"

    def __init__(self, store: DocumentStore, now: Now, random: RandomBytes) -> None:
        self._documents = Documents(store, EXPECTATIONS, random)
        self._alarms = Documents(store, ALARMS, random)
        self._now = now

    @operation(Role.OPERATE, EXPECTATION, audit=STATE, event=MADE, gives=ExpectationView.made)
    async def set(self, name: str, within: Span, *, description: str | None = None) -> Expectation:
        """Expect something elsewhere to report a good end (`ping`) at least every `within` seconds.

        A new time replaces the old one; reports stay, and so does the description unless one is given ("" for none).
        For a job use its field `expect_within` instead. Raises `InvalidInput`, and `Refused` for a job that has this
        field.
        """
        checked_id, seconds = _new_name(name), seconds_within(within)
        if description is not None:
            check_text("description", description)
            check_size("description", description, MOST_DESCRIPTION)
        now = await self._now()

        def changed(known: Expectation) -> Expectation:
            if known.of_job:
                raise _of_a_job(known.name)
            by = expected_by(known.base, seconds)
            text = known.description if description is None else description or None
            return replace(known, within=seconds, description=text, expected_by=by, look_at=now, touched=now)

        return await self._put(_new(checked_id, seconds, now, description=description or None), changed)

    @operation(Role.READ, EXPECTATION, gives=ExpectationView.made)
    async def get(self, name: str) -> Expectation:
        """Return the expectation of this name. Raises `NotFound`."""
        try:
            return await self._documents.get(check_job_id(name, field="name"))
        except NotFound:
            raise _unexpected(name) from None

    @operation(Role.READ, OPEN, gives=list_of(ExpectationView.made))
    async def list(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Expectation]:
        """Return expectations by name, from the first name behind `after`."""
        return await self._documents.page(_behind(after), checked("limit", limit, MOST_LISTED))

    @list.within
    async def _list_within(
        self, sight: Sight, after: str | None = None, limit: int = MOST_LISTED
    ) -> Sequence[Expectation]:
        async def sees(each: Expectation) -> bool:
            return await sight.sees_expectation(each.name)

        return await by_id(sight, self.list, lambda each: each.name, sees, after=after, limit=limit)

    @operation(Role.OPERATE, EXPECTATION, audit=STATE, event="deleted")
    async def delete(self, name: str) -> None:
        """Delete the expectation of something elsewhere. Raises `NotFound`, and `Refused` for a job."""
        checked_id = check_job_id(name, field="name")

        async def act() -> None:
            document = await self._documents.find(checked_id)
            if self._documents.value_of(document).of_job:
                raise _of_a_job(checked_id)
            await self._documents.delete(document)

        await retried(act, Conflict)
        await self._take_back(checked_id)

    async def _state(self, name: str) -> object:
        """Return the expectation without its reports."""
        known = await self.get(name)
        return {"within": known.within, "description": known.description, "queue": known.queue}

    async def _queue_of(self, name: str) -> str | None:
        """Return the queue of the job with this expectation. Raises `NotFound`."""
        known = await self.get(name)
        return known.queue if known.of_job else None

    @operation(Role.PING, EXPECTATION, gives=ExpectationView.made)
    async def ping(self, name: str, report: str = "ok", log: str | None = None) -> Expectation:
        """Report `ok`, `start` or `fail` of something elsewhere, or of a job from outside; `log` is its output.

        A good end clears the alarm, a failure raises one within seconds. Raises `InvalidInput`, and `NotFound` without
        an expectation.
        """
        checked_id, kind = check_job_id(name, field="name"), chosen(Report, "report", report)
        check_text("log", "" if log is None else log)
        now = await self._now()

        async def act() -> Expectation:
            return await self._documents.change(checked_id, lambda each: _reported(each, kind, log, now))

        try:
            known = await retried(act, Conflict)  # a hundred machines may report at the same second: each gets on
        except NotFound:
            raise _unexpected(checked_id) from None
        if kind is Report.OK:
            await self._take_back(checked_id)
        return known

    @operation(Role.READ, OPEN, gives=list_of(AlarmView.made))
    async def alarms(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Alarm]:
        """Return alarms by name, from the first name behind `after`."""
        return await self._alarms.page(_behind(after), checked("limit", limit, MOST_LISTED))

    @alarms.within
    async def _alarms_within(self, sight: Sight, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Alarm]:
        async def sees(alarm: Alarm) -> bool:
            return await sight.sees_expectation(alarm.name)

        return await by_id(sight, self.alarms, lambda alarm: alarm.name, sees, after=after, limit=limit)

    async def _alarm(self, name: str) -> Alarm | None:
        """Return the alarm of this name; None if there is none."""
        try:
            return await self._alarms.get(name)
        except NotFound:
            return None

    async def _check_free(self, job_id: JobId, definition: Definition) -> None:
        """Raise `Refused` if something is expected of the job, and something elsewhere has that name."""
        if definition.expect_within is not None:
            with suppress(NotFound):
                _check_of_job(await self._documents.get(job_id))

    async def _of_jobs(self, jobs: Sequence[Job]) -> None:
        """Have nodes watch jobs that are about to be written. Raises `Refused`."""
        for job in jobs:
            await self._of_job(job.id, job.definition)

    async def _of_job(self, job_id: JobId, definition: Definition, *, since: Moment | None = None) -> None:
        """Have nodes watch a job that is about to be written, if its definition says that something is expected.

        `since`: nothing is expected from before. Raises `Refused` if something elsewhere has that name.
        """
        within = definition.expect_within
        if within is None:
            return
        now, queue = await self._now(), definition.queue
        fresh = replace(_new(job_id, within, now, of_job=True), queue=queue)

        def changed(known: Expectation) -> Expectation:
            _check_of_job(known)
            if known.queue != queue:  # it is of a job of others, or by others
                return fresh
            first = known.since if since is None else max(known.since, since)
            return replace(known, within=within, since=first, look_at=now, touched=now)

        kept = await self._put(fresh, changed)
        if kept == fresh:
            await self._take_back(job_id)

    async def _put(self, fresh: Expectation, changed: Callable[[Expectation], Expectation]) -> Expectation:
        async def act() -> Expectation:
            try:
                return await self._documents.change(fresh.name, changed)
            except NotFound:
                await self._documents.add(fresh.name, fresh)
                return fresh

        return await retried(act, AlreadyExists)

    async def _take_back(self, name: str) -> None:
        async def act() -> None:
            await self._alarms.delete(await self._alarms.find(name))

        try:
            await retried(act, Conflict)
        except NotFound:
            return


def _new(
    name: JobId, within: float, now: Moment, *, of_job: bool = False, description: str | None = None
) -> Expectation:
    return Expectation(
        name=name,
        within=within,
        of_job=of_job,
        description=description,
        since=now,
        expected_by=expected_by(now, within),
        look_at=now,
        touched=now,
    )


def _new_name(given: str) -> JobId:
    """Return a name that something elsewhere may have: an address must lead to it. Raises `InvalidInput`."""
    name = check_job_id(given, field="name")
    if name in DOTS:
        raise InvalidInput(f"name: {given!r} is not a name", field="name", value=given, allowed=JOB_ID_ALLOWED)
    return name


def _behind(after: str | None) -> str:
    return "" if after is None else check_job_id(after, field="after")


def _reported(known: Expectation, said: Report, log: str | None, now: Moment) -> Expectation:
    expectation = replace(no_later(known, now), log=known.log if log is None else log[-MOST_LOG:])
    match said:
        case Report.OK:
            by = expected_by(now, known.within)
            in_alarm = known.has_failed or known.expected_by <= now  # a node that is about to raise it looks once more
            look_at = Moment(min(by, now + (RELOOK if in_alarm else RARELY)))
            return replace(expectation, good=now, expected_by=by, look_at=look_at)
        case Report.START:
            return replace(expectation, started=now)
        case Report.FAIL:
            return replace(expectation, failed=now, look_at=now)
        case _:
            assert_never(said)


def seconds_within(given: object) -> float:
    """Return the seconds within which something is expected. Raises `InvalidInput`."""
    seconds = seconds_of("within", given)
    if seconds < 1:
        raise InvalidInput(f"within: {given!r} is too short", field="within", value=given, allowed="at least 1 second")
    return seconds


def _unexpected(name: str) -> NotFound:
    hint = f"`tokimori expect {name} --within 25h` expects it"
    message = (
        f"nothing is expected of {name!r}: {hint}, or of a job here `tokimori job update ID --expect-within LENGTH`"
    )
    return NotFound(message, field="name", value=name)


def _check_of_job(known: Expectation) -> None:
    if not known.of_job:
        message = (
            f"expect_within: {known.name!r} is expected elsewhere: `tokimori expect {known.name} --never` ends that"
        )
        raise Refused(message, field="expect_within", value=known.name, allowed="a job whose id nothing else has")


def _of_a_job(name: str) -> Refused:
    return Refused(
        f"name: {name!r} is a job, which says itself what is expected of it: `tokimori job update {name} "
        "--expect-within LENGTH`",
        field="name",
        value=name,
        allowed="the name of something that runs elsewhere",
    )
