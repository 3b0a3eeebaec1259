"""Tab with the meaning of a job's schedule: in words, its next moments, and a month of days."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from markupsafe import Markup
from msgspec.structs import replace

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.job import Definition, Job, JobState, limit_of
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.retention import DailyCount
from tokimori.model.transitions import RunState
from tokimori.schedules.counting import count_until, jumps
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.zones import on_clocks, zone_info
from tokimori.service.jobs.writer import schedule_for
from tokimori.web.job_rows import Preview, after, preview, unread
from tokimori.web.visit import Visit
from tokimori.web.words import whole_length

MOMENTS_SHOWN: Final = 10
MOST_YEARS: Final = 50
_MISSED: Final[Mapping[Misfire, str]] = MappingProxyType(
    {
        Misfire.LATEST: "the newest one runs, the others are skipped",
        Misfire.ALL: "all of them run, the oldest first",
        Misfire.SKIP: "it is skipped",
    }
)
_OVER: Final[Mapping[Overlap, str]] = MappingProxyType(
    {
        Overlap.SKIP: "another one is skipped",
        Overlap.QUEUE: "another one waits",
        Overlap.REPLACE: "a newer one takes the place of the older ones",
    }
)


class MonthDay(NamedTuple):
    """Day of a month: the number of its occurrences, the outcomes of its runs, and its peculiarities."""

    date: date
    planned: int
    bar: Markup
    is_other: bool
    is_today: bool
    is_off: bool
    failed: int
    skipped: int
    clocks: bool


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the meaning of the schedule, and a month."""
    today = on_clocks(job.definition.time_zone, visit.now).date()
    month = _month(visit.one("month"), today)
    counts = () if job.state is JobState.DELETED else await visit.service.jobs.counts(job.id)
    try:
        schedule = schedule_for(job) if job.definition.schedule is not None else None
        days = () if schedule is None else await _days(visit, job, schedule, month, counts)
    except InvalidInput:
        days = ()
    return {
        "meaning": await _meaning(visit, job),
        "after": after(job),
        "late": _late(job.definition) if job.definition.schedule is not None else "",
        "days": days,
        "month": f"{month:%B %Y}",
        "usual": Counter(day.planned for day in days).most_common(1)[0][0] if days else 0,
        "earlier": visit.link(month=f"{month - timedelta(days=1):%Y-%m}"),
        "later": visit.link(month=f"{month + timedelta(days=31):%Y-%m}"),
    }


async def _meaning(visit: Visit, job: Job) -> Preview:
    try:
        return preview(visit, await visit.service.jobs.explain(job.id, MOMENTS_SHOWN))
    except InvalidInput as fault:
        return unread(job.definition.time_zone, fault)


def _late(definition: Definition) -> str:
    """Return what becomes of occurrences that are late, and of those that come while others run."""
    known = definition.late_after, definition.grace
    after_, grace = (None if each is None else whole_length(round(each * SECOND)) for each in known)
    text = f"Over {after_} late is missed: {_MISSED[definition.misfire]}."
    text += "" if grace is None else f" Over {grace} late none runs."
    limit = limit_of(definition)
    return f"{text} At most {limit} at a time: {_OVER[definition.on_overlap]}." if limit else text


def _month(given: str | None, today: date) -> date:
    """Return the first day of the month that is asked for. Raises `InvalidInput`."""
    if given is None:
        return today.replace(day=1)
    try:
        found = datetime.strptime(given, "%Y-%m").date()
    except ValueError:
        found = date.min
    if abs(found.year - today.year) <= MOST_YEARS:
        return found
    raise InvalidInput(f"month: {given!r} is no month near now", field="month", value=given, allowed="such as 2030-01")


async def _days(
    visit: Visit, job: Job, schedule: Schedule, month: date, counts: Sequence[DailyCount]
) -> Sequence[MonthDay]:
    """Return the days of the weeks of a month."""
    zone, first = job.definition.time_zone, month - timedelta(days=month.weekday())
    last = (month + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    dates = [first + timedelta(days=n) for n in range((last - first).days + 7 - last.weekday())]
    planned, clocks = await asyncio.to_thread(_planned, job, schedule, dates, zone)
    ended: dict[date, Counter[str]] = {}
    for count in counts:
        ended.setdefault(on_clocks("UTC", count.day).date(), Counter())[count.outcome] += count.count
    today, most = on_clocks(zone, visit.now).date(), max(named for named, _ in planned)
    return [
        _day(each, ended.get(each, Counter()), most, named, is_past=each < today)._replace(
            is_other=each.month != month.month, is_today=each == today, is_off=named < in_all, clocks=each in clocks
        )
        for each, (named, in_all) in zip(dates, planned, strict=True)
    ]


def _planned(
    job: Job, schedule: Schedule, dates: Sequence[date], zone: str
) -> tuple[Sequence[tuple[int, int]], frozenset[date]]:
    """Return how many moments of each day are named, without days off and with them, and the days of clock changes."""
    edges = [_midnight(each, zone) for each in (*dates, dates[-1] + timedelta(days=1))]
    whole = schedule if job.days_off is None else schedule_for(replace(job, days_off=None))
    days = [(Moment(first - 1), Moment(last - 1)) for first, last in pairwise(edges)]
    named = [(count_until(schedule, *day)[0], count_until(whole, *day)[0]) for day in days]
    long = {day for day, (first, last) in zip(dates, pairwise(edges), strict=True) if last - first != DAY}
    return named, frozenset(long | {on_clocks(zone, jump.at).date() for jump in jumps(schedule, edges[0], edges[-1])})


def _midnight(day: date, zone: str) -> Moment:
    begins = datetime(day.year, day.month, day.day, tzinfo=zone_info(zone))
    return Moment(int(begins.timestamp()) * SECOND)


def _day(day: date, ended: Counter[str], most: int, named: int, *, is_past: bool) -> MonthDay:
    good, bad, gone = (ended.pop(state, 0) for state in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED))
    skipped = ended.total() + gone
    to_come = 0 if is_past else max(0, named - good - bad - skipped)
    parts = [("f ok", good), ("f faint", skipped), ("f bad", bad), ("next", to_come)]
    label = f"{named} named: {good} succeeded, {bad} failed, {skipped} skipped or cancelled"
    drawn, x, scale = "", 0.0, 96 / max(most, good + bad + skipped, 1)
    for tone, count in parts:
        if count:
            drawn += f'<rect class="{tone}" x="{x:.1f}%" width="{max(count * scale, 1):.1f}%" height="6"/>'
            x += count * scale
    bar = f'<svg width="100%" height="6" role="img" aria-label="{label}"><title>{label}</title>{drawn}</svg>'
    return MonthDay(
        date=day,
        planned=named,
        bar=Markup(bar),  # noqa: S704  made of numbers
        is_other=False,
        is_today=False,
        is_off=False,
        failed=bad,
        skipped=skipped,
        clocks=False,
    )
