"""Notifiers: jobs whose runs notify people of events of other jobs, and their quiet hours. Pure.

A notifier is a job like any other, with terms of notifications beside its target. So a notification is a run, with
attempts, retries, leases and the ledger.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct

from tokimori.clock import MINUTE, Moment, from_datetime, to_datetime
from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId
from tokimori.model.policies import Retry
from tokimori.model.templates import check_no_secret, check_template
from tokimori.model.words import check_word
from tokimori.schedules.zones import zone_info

MOST = 20
"""Stretches of quiet hours that a notifier may have."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTES = 24 * 60
_WEEK = 7 * _MINUTES
_HOURS = re.compile(r"(?:([a-z]{3}(?:[,-][a-z]{3}){0,12}) +)?(\d\d):([0-5]\d)-(\d\d):([0-5]\d)\Z", re.ASCII)
_ALLOWED = "hours such as 22:00-07:00, perhaps with the days on which they begin: sat,sun 00:00-24:00"


def check_quiet(quiet: Sequence[str]) -> None:
    """Check that these are quiet hours, and leave a minute of the week. Raises `InvalidInput`."""
    if len(quiet) > MOST:
        message = f"notifier.quiet: {len(quiet)} are too many"
        raise InvalidInput(message, field="notifier.quiet", value=len(quiet), allowed=f"at most {MOST}")
    if _week_of(tuple(quiet)).bit_count() == _WEEK:
        message = "notifier.quiet: they leave no minute of the week, so nobody would ever be notified"
        raise InvalidInput(message, field="notifier.quiet", value=list(quiet), allowed="hours that leave some")


def quiet_until(quiet: Sequence[str], zone: str, now: Moment) -> Moment | None:
    """Return the end of the quiet hours that contain this moment, on the clocks of the zone; None if none do.

    Raises `InvalidInput` if another version wrote hours that this one can't read.
    """
    if not quiet:
        return None
    week = _week_of(tuple(quiet))
    wall = to_datetime(now).astimezone(zone_info(zone))
    minute = (wall.weekday() * 24 + wall.hour) * 60 + wall.minute
    ahead = week >> minute | (week & (1 << minute) - 1) << _WEEK - minute
    if not ahead & 1:
        return None
    left = (~ahead & ahead + 1).bit_length() - 1
    end = wall.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=left)
    found = from_datetime(end.replace(tzinfo=zone_info(zone)))
    return found if found > now else Moment(now + MINUTE)  # clocks were set back


@lru_cache(maxsize=64)
def _week_of(quiet: tuple[str, ...]) -> int:
    """Return the minutes of the week as bits, from Monday on. Raises `InvalidInput`."""
    week = 0
    for text in quiet:
        for first, length in _stretches(text):
            bits = (1 << length) - 1 << first
            week |= bits & (1 << _WEEK) - 1 | bits >> _WEEK
    return week


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first minute of the week and the number of minutes of each. Raises `InvalidInput`."""
    found = _HOURS.match(text.strip().casefold())
    if found is None:
        raise _no_hours(text)
    first, last = int(found[2]) * 60 + int(found[3]), int(found[4]) * 60 + int(found[5])
    if first >= _MINUTES or last > _MINUTES or first == last:
        raise _no_hours(text)
    length = last - first if last > first else last + _MINUTES - first
    for day in _days(text, found[1]):
        yield day * _MINUTES + first, length


def _days(text: str, said: str | None) -> Iterator[int]:
    """Check the arguments. Raises `InvalidInput`."""
    if said is None:
        yield from range(7)
        return
    for part in said.split(","):
        names = part.split("-")
        if len(names) > 2 or not all(name in _DAYS for name in names):
            raise _no_hours(text)
        first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
        yield from (day % 7 for day in range(first, last + 1 if last >= first else last + 8))


def _no_hours(text: str) -> InvalidInput:
    message = f"notifier.quiet: {text!r} are no quiet hours"
    return InvalidInput(message, field="notifier.quiet", value=text, allowed=_ALLOWED)


PREFIX = "notifier:"
"""Prefix of the ids of notifiers, by which they are found among any number of jobs."""
MOST_NOTIFIERS = 10
"""Notifiers that one event of a job may have."""
LONGEST_BUNDLE = 86_400
"""Seconds."""
RETRY = Retry(attempts=6, delay=10, backoff=3, cap=600)
"""Default retries: a receiver that is away for a quarter of an hour still gets its notifications."""
MOST_TEXT = 4_000
"""Characters of a template."""
FACTS = ("event", "summary", "job_id", "run_id", "error", "count", "first", "last", "details", "notifier")
"""Facts that templates of notifications may name."""
DEFAULT_SUBJECT = "{{ summary }}"
DEFAULT_TEXT = "{{ summary }}\n\n{{ details }}\n"


class NotifyOn(StrEnum):
    """Events that a job may report."""

    FAILURE = "failure"
    """A run has failed, with all its retries."""
    RECOVERY = "recovery"
    """After a notified trouble a run has succeeded, or an overdue one has come."""
    OVERDUE = "overdue"
    """An expected end has not come."""
    PARKED = "parked"
    """The job was parked by a failure: it does not run until a person resolves it."""
    HELD = "held"
    """A run is held, and waits for a person."""
    SUCCESS = "success"
    """A run has succeeded."""


TROUBLES = (NotifyOn.FAILURE, NotifyOn.RECOVERY, NotifyOn.OVERDUE, NotifyOn.PARKED, NotifyOn.HELD)
"""Events that are meant if none is named: all but each success."""
Notify = Mapping[NotifyOn, tuple[str, ...]]


class Notifier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Terms that make a job a notifier.

    `subject` and `text` may name `FACTS`. Quiet hours are in the time zone of the job. What runs elsewhere is in
    `tokimori.model.expectation`.
    """

    subject: str | None = None
    text: str | None = None
    bundle: Annotated[float, Meta(ge=0, le=LONGEST_BUNDLE)] = 0
    quiet: tuple[str, ...] = ()
    elsewhere: bool = False


def notifier_id(name: str) -> JobId:
    """Return the id of the job that is the notifier of this name."""
    return JobId(PREFIX + name)


def name_of(job_id: str) -> str:
    """Return the name of the notifier with this id."""
    return job_id.removeprefix(PREFIX)


def is_notifier(job_id: str) -> bool:
    """Return whether the id is one of a notifier."""
    return job_id.startswith(PREFIX)


def check_notifier(job_id: str, notifier: Notifier | None, notify: Notify) -> None:
    """Check that the id of a job fits its being, or not being, a notifier. Raises `InvalidInput`."""
    if is_notifier(job_id) != (notifier is not None):
        raise InvalidInput(
            f"notifier: the ids of notifiers, and of no other jobs, begin with {PREFIX!r}, and this one is {job_id!r}",
            field="notifier",
            value=job_id,
            allowed=f"an id such as {PREFIX}ops with the field `notifier`: `tokimori notifier add` makes one",
        )
    if notifier is not None:
        check_word("notifier", name_of(job_id))
        if notify:
            message = "notify: a notifier notifies nobody of its own runs, which are messages themselves"
            raise InvalidInput(message, field="notify", value=list(notify), allowed="none in a notifier")


def check_terms(notifier: Notifier) -> None:
    """Check the terms of a notifier. Raises `InvalidInput`."""
    for field in ("subject", "text"):
        text = getattr(notifier, field) or ""
        name = f"notifier.{field}"
        if len(text) > MOST_TEXT:
            message = f"{name}: {len(text)} characters are too many"
            raise InvalidInput(message, field=name, value=len(text), allowed=f"at most {MOST_TEXT}")
        check_no_secret(name, text, "notifications are kept; the target of the notifier may name secrets")
        check_template(name, text, FACTS, "fact of a notification")
    check_quiet(notifier.quiet)


def check_notify(notify: Notify) -> None:
    """Check the notifiers that a job names. Raises `InvalidInput`."""
    for event, names in notify.items():
        if not 1 <= len(names) <= MOST_NOTIFIERS:
            raise InvalidInput(
                f"notify.{event}: {len(names)} notifiers are too many or too few",
                field=f"notify.{event}",
                value=len(names),
                allowed=f"1..{MOST_NOTIFIERS} names of notifiers",
            )
        for name in names:
            check_word(f"notify.{event}", name)


def notifiers_in(notify: Notify) -> Sequence[str]:
    """Return the names of all notifiers that these events name."""
    return sorted({name for names in notify.values() for name in names})
