"""Progress of notifying: one value, kept as one document. Pure.

The position in the history, the gathered events and the notifications to send change together, in one write. So the
next node goes on exactly where the last one was, and a notification that is sent twice is the same run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.model.document import LARGEST_TEXT
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.notification import (
    LONGEST_ERROR,
    OTHERS,
    Gathered,
    Occasion,
    begun,
    cause_of,
    folded,
    joined,
    payload_of,
    shown_fewer,
)
from tokimori.model.notifier import Notifier, NotifyOn, quiet_until
from tokimori.model.transitions import RunState

KIND = "notifying"
"""Kind of the document."""
NAME = "state"
SUCCESSES = "successes"
"""Name of the document that exists once a job notifies of its successes: only then all of them are read."""
MOST_GATHERED = 200
"""Gatherings at a time, each for a cause of its own. Further causes join one gathering for each event."""
MOST_TROUBLES = 1_000
"""Jobs in trouble that are remembered. Older ones get no notification of recovery."""
_MOST_SENT = 32 * 1024
"""Bytes of notifications that are sent together: they have to fit into the document."""
MOST_IDS = 40 * 1024
"""Characters of the ids of jobs in trouble, and of overdue ones."""
_LESS = (
    (MOST_GATHERED, 5, LONGEST_ERROR, MOST_TROUBLES),
    (MOST_GATHERED, 2, LONGEST_ERROR, MOST_TROUBLES),
    (MOST_GATHERED, 1, LONGEST_ERROR, MOST_TROUBLES),
    (MOST_GATHERED, 1, 40, MOST_TROUBLES),
    (100, 1, 40, 300),
    (0, 1, 40, 0),
)
"""Sizes of the document, of which the first that fits is taken: gatherings, occasions shown of each, characters of an
error, and troubles."""


class Notification(Struct, frozen=True, kw_only=True):
    """A notification that is to be sent: a run of its notifier, with this id."""

    id: RunId
    notifier: str
    payload: str


class Trouble(Struct, frozen=True, omit_defaults=True):
    """The last notified trouble of a job: when, which, and if its parking was notified; `since`: of the first one."""

    at: Moment
    event: NotifyOn = NotifyOn.FAILURE
    parked: bool = False
    since: Moment | None = None

    @property
    def began(self) -> Moment:
        """Return when the job's trouble began."""
        return self.at if self.since is None else self.since


class ZonedNotifier(Struct, frozen=True, kw_only=True):
    """A notifier, and the time zone of its quiet hours."""

    notifier: Notifier
    time_zone: str = "UTC"


class Notifying(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress of notifying.

    All ends that were written before `written` (`tie`: among those of that moment) were read, and of later ones those
    in `seen`. `overdue` and `held` were notified and still last. `owner` is the node that notifies, last at `beat`: a
    late node only repeats the work of another one.
    """

    written: Moment
    tie: str = ""
    seen: Mapping[RunId, Moment] = field(default_factory=dict)
    gathered: tuple[Gathered, ...] = ()
    sending: tuple[Notification, ...] = ()
    troubles: Mapping[JobId, Trouble] = field(default_factory=dict)
    overdue: Mapping[JobId, str] = field(default_factory=dict)
    held: Mapping[RunId, int] = field(default_factory=dict)
    owner: str = ""
    beat: Moment = Moment(0)


ZonedNotifiers = Mapping[str, ZonedNotifier]
decode_notifying = msgspec.json.Decoder(Notifying).decode


def encode_notifying(state: Notifying) -> str:
    """Return the text of the document. A text that would be too large holds fewer occasions."""
    for gathered, shown, longest, troubles in _LESS:
        less = replace(
            state,
            gathered=shown_fewer(folded(state.gathered, gathered), shown, longest),
            troubles=dict(list(state.troubles.items())[max(0, len(state.troubles) - troubles) :]),
        )
        text = msgspec.json.encode(less)
        if len(text) <= LARGEST_TEXT:
            break
    return text.decode()


def is_news(after: Notifying, before: Notifying, every: float) -> bool:
    """Return whether to write it: something happened, or nothing was written for `every` seconds."""
    same = replace(after, written=before.written, tie=before.tie, beat=before.beat, seen=before.seen) == before
    return not same or bool(after.seen.keys() - before.seen.keys()) or after.beat >= before.beat + every * SECOND


def events_at_end(job: Job, state: RunState, at: Moment, trouble: Trouble | None) -> list[NotifyOn]:
    """Return the reported events of a job after a run of it has ended like this.

    The end of trouble is always among it, so that it is noted.
    """
    match state:
        case RunState.FAILED:
            is_known = trouble is not None and trouble.parked and job.updated <= trouble.at  # it was not resolved since
            parked = job.state is JobState.PARKED and not is_known
            found = [NotifyOn.FAILURE, *([NotifyOn.PARKED] if parked else [])]
        case RunState.SUCCEEDED:
            recovers = trouble is not None and trouble.at < at
            found = [NotifyOn.SUCCESS, *([NotifyOn.RECOVERY] if recovers else [])]
        case _:
            found = []
    return [each for each in found if each in job.definition.notify or each is NotifyOn.RECOVERY]


def gathered_with(
    state: Notifying, happened: Iterable[tuple[Occasion, Sequence[str]]], notifiers: ZonedNotifiers, now: Moment
) -> Notifying:
    """Return the progress with these occasions, each for its notifiers; notifiers that no longer exist are left out."""
    gathered = {(each.notifier, each.event, each.cause): each for each in state.gathered}
    for occasion, names in happened:
        for name in dict.fromkeys(names):
            if name in notifiers:
                _join(gathered, name, notifiers[name], occasion, now)
    return replace(state, gathered=tuple(gathered.values()))


def _join(
    gathered: dict[tuple[str, NotifyOn, str], Gathered],
    name: str,
    zoned: ZonedNotifier,
    occasion: Occasion,
    now: Moment,
) -> None:
    due = _latest(zoned, now)
    key = (name, occasion.event, cause_of(occasion, bundled=due > now))
    if key not in gathered and len(gathered) >= MOST_GATHERED:
        key = (name, occasion.event, OTHERS)
    known = gathered.get(key)
    if known is None:
        gathered[key] = begun(name, occasion, key[2], due)
    else:
        gathered[key] = joined(known, occasion)


def _latest(zoned: ZonedNotifier, now: Moment) -> Moment:
    """Return the latest time at which a gathering of now is due. A later one comes from a clock that was ahead."""
    quiet = quiet_until(zoned.notifier.quiet, zoned.time_zone, now)
    return max(Moment(now + round(zoned.notifier.bundle * SECOND)), quiet or now)


def note_trouble(troubles: dict[JobId, Trouble], occasion: Occasion) -> None:
    """Note a notification of trouble, or of its end."""
    known = troubles.pop(occasion.job_id, None)
    match occasion.event:
        case NotifyOn.SUCCESS | NotifyOn.HELD if known is not None:
            troubles[occasion.job_id] = known
        case NotifyOn.FAILURE | NotifyOn.OVERDUE | NotifyOn.PARKED:
            parked = occasion.event is NotifyOn.PARKED or (known is not None and known.parked)
            at = occasion.at if known is None else max(known.at, occasion.at)
            since = occasion.at if known is None else known.began
            troubles[occasion.job_id] = Trouble(at, occasion.event, parked, since)
        case _:
            pass


def not_after(trouble: Trouble, now: Moment) -> Trouble:
    """Return the trouble, at `now` at the latest: one in the future, from a clock ahead, would never end."""
    return trouble if trouble.at <= now else replace(trouble, at=now)


def newest_of(troubles: dict[JobId, Trouble]) -> dict[JobId, Trouble]:
    """Return as many of the newest notified ones as there is room for."""
    size = sum(map(len, troubles))
    while len(troubles) > MOST_TROUBLES or size > MOST_IDS:
        oldest = next(iter(troubles))
        size -= len(oldest)
        del troubles[oldest]
    return troubles


def sending_what_is_due(
    state: Notifying, notifiers: ZonedNotifiers, now: Moment, new_id: Callable[[], str]
) -> Notifying:
    """Return the progress with notifications for due gatherings, up to one sending. Quiet hours put them off."""
    sending, left, size = list(state.sending), [], sum(len(each.payload.encode()) for each in state.sending)
    for each in state.gathered:
        zoned = notifiers.get(each.notifier)
        if zoned is None:
            continue
        due = min(each.due, _latest(zoned, now))
        quiet = quiet_until(zoned.notifier.quiet, zoned.time_zone, now) if due <= now else None
        if due > now or quiet is not None or size > _MOST_SENT:
            left.append(replace(each, due=quiet or due))
            continue
        notification = _notification(each, new_id(), zoned.notifier)
        size += len(notification.payload.encode())
        sending.append(notification)
    return replace(state, sending=tuple(sending), gathered=tuple(left))


def _notification(gathered: Gathered, new_id: str, notifier: Notifier) -> Notification:
    return Notification(id=RunId(new_id), notifier=gathered.notifier, payload=payload_of(gathered, new_id, notifier))
