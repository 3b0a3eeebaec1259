"""Schedules and calendars as JSON: what a text means, and which days are off."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from tokimori.clock import Moment, format_moment
from tokimori.model.calendar import Calendar
from tokimori.model.ids import JobId
from tokimori.schedules.explain import Explanation
from tokimori.schedules.zones import on_clocks


class MomentView(Struct, frozen=True, kw_only=True):
    """A moment in UTC, and in the schedule's time zone with its offset; `zone` is the short name of that time."""

    time: str
    local: str
    zone: str


class ExplanationView(Struct, frozen=True, kw_only=True):
    """The meaning of a schedule: a sentence in English, the next moments, and warnings."""

    schedule: str
    time_zone: str
    sentence: str
    moments: tuple[MomentView, ...]
    warnings: tuple[str, ...]


class CalendarView(Calendar, frozen=True, kw_only=True, omit_defaults=False):
    """A calendar. `jobs`, the ids of the jobs that use it, are there only if a single calendar is shown."""

    jobs: tuple[str, ...] | UnsetType = UNSET


def explanation_view(explanation: Explanation) -> ExplanationView:
    """Return the explanation as JSON shows it."""
    return ExplanationView(
        schedule=explanation.text,
        time_zone=explanation.time_zone,
        sentence=explanation.sentence,
        moments=tuple(moment_view(moment, explanation.time_zone) for moment in explanation.moments),
        warnings=explanation.warnings,
    )


def moment_view(moment: Moment, time_zone: str) -> MomentView:
    """Return the moment as JSON shows it, on the clocks of the zone."""
    local = on_clocks(time_zone, moment)
    return MomentView(time=format_moment(moment), local=local.isoformat(), zone=local.tzname() or time_zone)


def calendar_view(calendar: Calendar, jobs: Sequence[JobId] | None = None) -> CalendarView:
    """Return the calendar as JSON shows it."""
    return CalendarView(**asdict(calendar), jobs=UNSET if jobs is None else tuple(jobs))
