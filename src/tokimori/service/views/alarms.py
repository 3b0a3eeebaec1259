"""Alarms and expectations as JSON, and as a sentence."""

from datetime import datetime
from typing import ClassVar

from tokimori.clock import Moment, format_moment
from tokimori.model.expectation import Alarm as InnerAlarm
from tokimori.model.expectation import AlarmKind
from tokimori.service.views.outside import Length, Outside, Sources


def sentence(alarm: InnerAlarm) -> str:
    """Return the alarm in words, without a full stop."""
    what = f"job {alarm.name}" if alarm.of_job else alarm.name
    if alarm.kind is AlarmKind.FAILED:
        return f"{what} has reported a failure{_last(alarm.last_good, ', and it last ended well at ')}"
    ended = _last(alarm.last_good, "it last ended well at ") or "it has never ended well"
    return f"{what} is overdue: expected by {format_moment(alarm.expected_by)}, and {ended}"


def _last(good: Moment | None, before: str) -> str:
    return "" if good is None else before + format_moment(good)


class Alarm(Outside, frozen=True, kw_only=True):
    """Alarm: `overdue`, or `failed` after a reported failure.

    `name` is the id of a job (`of_job`), or the name of something elsewhere. `within` is in seconds.
    """

    SOURCES: ClassVar[Sources] = {"text": sentence}

    kind: AlarmKind
    name: str
    of_job: bool
    since: datetime
    expected_by: datetime
    last_good: datetime | None
    within: Length
    log: str | None
    text: str


class Expectation(Outside, frozen=True, kw_only=True):
    """Expectation of a good end within so many seconds after the last one, or after `since` if that is later.

    `started`, `failed` and `log` are the last reports. Expectations of jobs stand in their definitions.
    """

    SOURCES: ClassVar[Sources] = {"last_good": "good"}

    name: str
    of_job: bool
    within: Length
    description: str | None
    since: datetime
    last_good: datetime | None
    expected_by: datetime
    started: datetime | None
    failed: datetime | None
    log: str | None
