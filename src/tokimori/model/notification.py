"""Notifications: events of one cause are gathered into one message of a notifier. Pure."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.model.cause import steady
from tokimori.model.ids import JobId, RunId
from tokimori.model.notifier import DEFAULT_SUBJECT, DEFAULT_TEXT, Notifier, NotifyOn
from tokimori.model.templates import rendered

MOST_SHOWN = 5
"""Occasions that a notification names; the others are counted."""
LONGEST_ERROR = 300
"""Characters of an error that a notification quotes."""
LONGEST_SUBJECT = 200
LONGEST_TEXT = 20_000
"""Characters of a notification, whatever its template names: a command gets it in its environment."""
OTHERS = "…"
"""The cause of occasions that found no room of their own."""


class Occasion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Occasion: something that happened to a job at `at`. `what` identifies it, `cause` is that of a failed run.

    `since` is when the trouble began to which it belongs.
    """

    event: NotifyOn
    job_id: JobId
    at: Moment
    run_id: RunId | None = None
    error: str | None = None
    cause: str | None = None
    since: Moment | None = None

    @property
    def what(self) -> str:
        """Return a unique text of the occasion."""
        return f"{self.event} {self.run_id or self.job_id} {self.at}"


class Gathered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Occasions of one cause for one notification, which is `due` later; some of them are `shown`."""

    notifier: str
    event: NotifyOn
    cause: str
    due: Moment
    count: int
    first: Moment
    last: Moment
    shown: tuple[Occasion, ...]
    job_id: JobId | None = None
    """The job, if it is always the same."""


class NotifiedOccasion(Struct, frozen=True, kw_only=True):
    """One occasion in a notification."""

    job_id: str
    run_id: str | None
    at: str
    error: str | None


class Payload(Struct, frozen=True, kw_only=True):
    """The payload of a notification's run.

    `threads` are the ids of the troubles that it reports, and that others have reported before; `begins` is that of
    the one which it is the first to report.
    """

    id: str
    notifier: str
    event: str
    subject: str
    text: str
    count: int
    first: str
    last: str
    job_id: str | None
    run_id: str | None
    error: str | None
    runs: tuple[NotifiedOccasion, ...]
    begins: str | UnsetType = UNSET
    threads: tuple[str, ...] | UnsetType = UNSET


def thread_of(notifier: str, occasion: Occasion) -> str | None:
    """Return the id of the thread of notifications about one trouble of a job; None if it is not of a trouble."""
    if occasion.since is None:
        return None
    return hashlib.sha256(f"{notifier} {occasion.job_id} {occasion.since}".encode()).hexdigest()[:32]


def cause_of(occasion: Occasion, *, bundled: bool) -> str:
    """Return the cause of the occasion, the same for all of one notification: that of its failure, if there is one."""
    if not bundled:
        return occasion.what
    text = occasion.cause or (occasion.job_id if occasion.error is None else steady(occasion.error))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def begun(notifier: str, occasion: Occasion, cause: str, due: Moment) -> Gathered:
    """Return a new gathering with its first occasion."""
    return Gathered(
        notifier=notifier,
        event=occasion.event,
        cause=cause,
        due=due,
        count=1,
        first=occasion.at,
        last=occasion.at,
        shown=(occasion,),
        job_id=occasion.job_id,
    )


def joined(gathered: Gathered, occasion: Occasion) -> Gathered:
    """Return the gathering with one more occasion."""
    return replace(
        gathered,
        count=gathered.count + 1,
        first=min(gathered.first, occasion.at),
        last=max(gathered.last, occasion.at),
        shown=(*gathered.shown, occasion)[:MOST_SHOWN],
        job_id=gathered.job_id if gathered.job_id == occasion.job_id else None,
    )


def folded(gathered: Sequence[Gathered], most: int) -> tuple[Gathered, ...]:
    """Return the first so many as they are; all others joined, for each notifier and event."""
    found = {(each.notifier, each.event, each.cause): each for each in gathered[:most]}
    for each in gathered[most:]:
        key = (each.notifier, each.event, OTHERS)
        found[key] = _merged(found[key], each) if key in found else replace(each, cause=OTHERS)
    return tuple(found.values())


def _merged(one: Gathered, other: Gathered) -> Gathered:
    return replace(
        one,
        due=min(one.due, other.due),
        count=one.count + other.count,
        first=min(one.first, other.first),
        last=max(one.last, other.last),
        shown=(*one.shown, *other.shown)[:MOST_SHOWN],
        job_id=one.job_id if one.job_id == other.job_id else None,
    )


def shortened(error: str | None, longest: int = LONGEST_ERROR) -> str | None:
    """Return the part of an error that a notification quotes."""
    return error if error is None or len(error) <= longest else f"{error[: longest - 1]}…"


def payload_of(gathered: Gathered, new_id: str, notifier: Notifier) -> str:
    """Return the payload of the notification's run, as JSON."""
    first = gathered.shown[0]
    facts = {
        "event": str(gathered.event),
        "summary": summary_of(gathered),
        "job_id": gathered.job_id or "",
        "run_id": first.run_id or "",
        "error": first.error or "",
        "count": str(gathered.count),
        "first": format_moment(gathered.first),
        "last": format_moment(gathered.last),
        "details": _details(gathered),
        "notifier": gathered.notifier,
    }
    subject = rendered(DEFAULT_SUBJECT if notifier.subject is None else notifier.subject, facts)
    payload = Payload(
        id=new_id,
        notifier=gathered.notifier,
        event=gathered.event,
        subject=" ".join(subject.split())[:LONGEST_SUBJECT],
        text=rendered(DEFAULT_TEXT if notifier.text is None else notifier.text, facts)[:LONGEST_TEXT],
        count=gathered.count,
        first=facts["first"],
        last=facts["last"],
        job_id=gathered.job_id,
        run_id=first.run_id,
        error=first.error,
        runs=tuple(map(_notified_occasion, gathered.shown)),
        **_threads(gathered),
    )
    return msgspec.json.encode(payload).decode()


def _threads(gathered: Gathered) -> dict[str, Any]:
    ids = dict.fromkeys(filter(None, (thread_of(gathered.notifier, each) for each in gathered.shown)))
    if gathered.count == 1 and ids and first_of(gathered.shown[0]):
        return {"begins": next(iter(ids))}
    return {"threads": tuple(ids)} if ids else {}


def first_of(occasion: Occasion) -> bool:
    """Return if the trouble begins with the occasion. A parking comes with the failure that has caused it."""
    return occasion.since == occasion.at and occasion.event in (NotifyOn.FAILURE, NotifyOn.OVERDUE)


_DID = {
    NotifyOn.FAILURE: ("has failed", "have failed"),
    NotifyOn.RECOVERY: ("has recovered", "have recovered"),
    NotifyOn.OVERDUE: ("is overdue", "are overdue"),
    NotifyOn.PARKED: ("is parked", "are parked"),
    NotifyOn.HELD: ("has a held run", "are held"),
    NotifyOn.SUCCESS: ("has succeeded", "have succeeded"),
}


def summary_of(gathered: Gathered) -> str:
    """Return a summary in a few words."""
    one, many = _DID[gathered.event]
    what = "jobs" if gathered.event in (NotifyOn.OVERDUE, NotifyOn.PARKED, NotifyOn.RECOVERY) else "runs"
    if gathered.count == 1:
        return f"{gathered.shown[0].job_id} {one}"
    if gathered.job_id is not None:
        return f"{gathered.job_id} {one}, {gathered.count} times"
    return f"{gathered.count} {what} {many}"


def _details(gathered: Gathered) -> str:
    lines = [_line(occasion) for occasion in gathered.shown]
    more = gathered.count - len(lines)
    return "\n".join([*lines, *([f"and {more} more"] if more else [])])


def _line(occasion: Occasion) -> str:
    error = " ".join((occasion.error or "").split())
    parts = [format_moment(occasion.at), occasion.job_id, occasion.run_id, error]
    return "  ".join(each for each in parts if each)


def _notified_occasion(occasion: Occasion) -> NotifiedOccasion:
    return NotifiedOccasion(
        job_id=occasion.job_id, run_id=occasion.run_id, at=format_moment(occasion.at), error=occasion.error
    )


def shown_fewer(gathered: Sequence[Gathered], most: int, longest: int) -> tuple[Gathered, ...]:
    """Return the same, with at most so many occasions of each shown, and so many characters of an error."""
    return tuple(
        replace(each, shown=tuple(replace(one, error=shortened(one.error, longest)) for one in each.shown[:most]))
        for each in gathered
    )
