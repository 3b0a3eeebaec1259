"""Alarms and expectations as JSON, and as a sentence."""

from msgspec import Struct

from tokimori.clock import Moment, format_moment
from tokimori.model.expectation import Alarm, AlarmKind, Expectation
from tokimori.service.views.stamps import stamp


class AlarmView(Struct, frozen=True, kw_only=True):
    """Alarm: `overdue`, or `failed` if somebody elsewhere has reported a failure.

    `name` is the id of a job (`of_job`), or that of what runs elsewhere. `within` is in seconds.
    """

    kind: str
    name: str
    of_job: bool
    since: str
    expected_by: str
    last_good: str | None
    within: float
    log: str | None
    text: str


class ExpectationView(Struct, frozen=True, kw_only=True):
    """Expectation of a good end within so many seconds after the last one, or after `since` if that is later.

    `started`, `failed` and `log` are what was reported last. What a job is expected to do its definition says.
    """

    name: str
    of_job: bool
    within: float
    description: str | None
    since: str
    last_good: str | None
    expected_by: str
    started: str | None
    failed: str | None
    log: str | None


def alarm_view(alarm: Alarm) -> AlarmView:
    """Return the alarm as JSON shows it."""
    return AlarmView(
        kind=alarm.kind.value,
        name=alarm.name,
        of_job=alarm.of_job,
        since=format_moment(alarm.since),
        expected_by=format_moment(alarm.expected_by),
        last_good=stamp(alarm.last_good),
        within=alarm.within,
        log=alarm.log,
        text=sentence(alarm),
    )


def expectation_view(known: Expectation) -> ExpectationView:
    """Return the expectation as JSON shows it."""
    return ExpectationView(
        name=known.name,
        of_job=known.of_job,
        within=known.within,
        description=known.description,
        since=format_moment(known.since),
        last_good=stamp(known.good),
        expected_by=format_moment(known.expected_by),
        started=stamp(known.started),
        failed=stamp(known.failed),
        log=known.log,
    )


def sentence(alarm: Alarm) -> str:
    """Return what is wrong, in words, without a full stop."""
    what = f"job {alarm.name}" if alarm.of_job else alarm.name
    if alarm.kind is AlarmKind.FAILED:
        return f"{what} has reported a failure{_last(alarm.last_good, ', and it last ended well at ')}"
    ended = _last(alarm.last_good, "it last ended well at ") or "it has never ended well"
    return f"{what} is overdue: expected by {format_moment(alarm.expected_by)}, and {ended}"


def _last(good: Moment | None, before: str) -> str:
    return "" if good is None else before + format_moment(good)
