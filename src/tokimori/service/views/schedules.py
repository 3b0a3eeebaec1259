"""Schedules and calendars as JSON: what a text means, and which days are off."""

from datetime import datetime
from typing import ClassVar, Self

from msgspec import UNSET, UnsetType

from tokimori.clock import Moment, to_datetime
from tokimori.model.calendar import Calendar
from tokimori.schedules.explain import Explanation as InnerExplanation
from tokimori.schedules.zones import on_clocks
from tokimori.service.views.outside import Outside, Sources


class LocalMoment(Outside, frozen=True, kw_only=True):
    """A moment in UTC, and in the schedule's time zone with its offset; `zone` is the short name of that time."""

    time: datetime
    local: str
    zone: str

    @classmethod
    def on(cls, moment: Moment, time_zone: str) -> Self:
        """Return the moment on the clocks of the zone."""
        local = on_clocks(time_zone, moment)
        return cls(time=to_datetime(moment), local=local.isoformat(), zone=local.tzname() or time_zone)


def _moments(found: InnerExplanation) -> tuple[LocalMoment, ...]:
    return tuple(LocalMoment.on(moment, found.time_zone) for moment in found.moments)


class Explanation(Outside, frozen=True, kw_only=True):
    """The meaning of a schedule: a sentence in English, the next moments, and warnings."""

    SOURCES: ClassVar[Sources] = {"schedule": "text", "moments": _moments}

    schedule: str
    time_zone: str
    sentence: str
    moments: tuple[LocalMoment, ...]
    warnings: tuple[str, ...]


class Next(Outside, frozen=True, kw_only=True):
    """A moment that the schedule of a job names."""

    SOURCES: ClassVar[Sources] = {"job_id": lambda pair: pair[0].id, "time": lambda pair: to_datetime(pair[1])}

    job_id: str
    time: datetime


class CalendarDetails(Calendar, Outside, frozen=True, kw_only=True, omit_defaults=False):
    """A calendar. `jobs`, the ids of the jobs that use it, are there only if a single calendar is shown."""

    jobs: tuple[str, ...] | UnsetType = UNSET
