"""Expectations: a job, or something elsewhere, has to end well within a time after its last good end. Pure.

If it does not, an alarm is raised, which a good end clears (docs/reference/alarms.md).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import DAY, SECOND, Moment
from tokimori.model.document import texts_of

KIND: Final = "expectation"
ALARM_KIND: Final = "alarm"
RELOOK: Final = 10 * SECOND
"""Microseconds until the next look at an expectation with an alarm."""
SETTLED: Final = 60 * SECOND
"""Microseconds after its declaration in which the job may still be about to be written."""


RARELY: Final = DAY
"""The longest time to the next look."""


class AlarmKind(StrEnum):
    """Reasons for an alarm."""

    OVERDUE = "overdue"
    """Nothing has ended well in time."""
    FAILED = "failed"
    """Something elsewhere has reported a failure."""


class Expectation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Expectation under a name, with its state.

    `name` is the id of a job (`of_job`), or a name of its own for something elsewhere. The next good end is expected
    `within` seconds after the last one (`good`), or after `since` if that is later; `expected_by` is that moment.
    `started`, `failed` and `log` were reported last. `touched`: when it was last declared. No look is needed before
    `look_at`. `queue` is that of the job.
    """

    name: str
    within: float
    of_job: bool = False
    description: str | None = None
    since: Moment
    good: Moment | None = None
    started: Moment | None = None
    failed: Moment | None = None
    log: str | None = None
    expected_by: Moment
    look_at: Moment
    touched: Moment
    queue: str | None = None

    @property
    def base(self) -> Moment:
        """Return the moment from which its time counts."""
        return self.since if self.good is None else max(self.since, self.good)

    @property
    def has_failed(self) -> bool:
        """Return whether a failure was reported, and nothing good since."""
        return self.failed is not None and (self.good is None or self.failed > self.good)


class Alarm(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alarm, raised at `since`, because a good end was `expected_by` then, or because of a failure.

    `name` is that of the expectation, the id of a job (`of_job`) or of something elsewhere. `last_good`: its last good
    end that is known. `log`: what it reported last.
    """

    kind: AlarmKind
    name: str
    since: Moment
    expected_by: Moment
    within: float
    of_job: bool = False
    last_good: Moment | None = None
    log: str | None = None


encode_expectation, decode_expectation = texts_of(Expectation)
encode_alarm, decode_alarm = texts_of(Alarm)


def expected_by(base: Moment, within: float, due: Moment | None = None) -> Moment:
    """Return the moment by which a good end is expected, if the last one was at `base`.

    If the schedule names nothing in that time, its first moment after it (`due`) counts instead: on days off nothing is
    expected.
    """
    span = round(within * SECOND)
    first = Moment(base + span)
    return first if due is None or due <= first else Moment(due + span)


def looked_at(known: Expectation, now: Moment, due: Moment | None = None) -> tuple[Expectation, Alarm | None]:
    """Return the expectation after a look at `now`, and the alarm that must exist; `due` as in `expected_by`."""
    by = expected_by(known.base, known.within, due)
    if known.has_failed or by <= now:
        return replace(known, expected_by=by, look_at=Moment(now + RELOOK)), _alarm(known, now, by)
    return replace(known, expected_by=by, look_at=Moment(min(by, now + RARELY))), None


def _alarm(known: Expectation, now: Moment, by: Moment) -> Alarm:
    return Alarm(
        kind=AlarmKind.FAILED if known.has_failed else AlarmKind.OVERDUE,
        name=known.name,
        since=now,
        expected_by=by,
        within=known.within,
        of_job=known.of_job,
        last_good=known.good,
        log=known.log,
    )


def rested(known: Expectation, now: Moment, until: Moment) -> Expectation:
    """Return the expectation of a paused job, whose time counts from now on."""
    return replace(known, since=now, expected_by=expected_by(now, known.within), look_at=until)


def settling(known: Expectation, now: Moment) -> Expectation:
    """Return the expectation after a look at a job that may be changing: another look follows."""
    settled = Moment(known.touched + SETTLED)
    return known if settled <= now else replace(known, look_at=min(known.look_at, settled))


def wants_a_look(known: Expectation, now: Moment) -> bool:
    """Return if its time has come. A time further ahead than any real one came from a clock ahead."""
    return known.look_at <= now or known.look_at > now + RARELY + SETTLED


def no_later(known: Expectation, now: Moment) -> Expectation:
    """Return the expectation without moments after `now`, which a clock that ran ahead has left."""

    def past(moment: Moment | None) -> Moment | None:
        return None if moment is None else min(moment, now)

    return replace(
        known,
        since=min(known.since, now),
        touched=min(known.touched, now),
        good=past(known.good),
        started=past(known.started),
        failed=past(known.failed),
    )
