"""Tab with what became of each occurrence of a job, day by day; equal neighbours are one line."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.clock import DAY, HOUR, Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.job import Job, JobState
from tokimori.model.ledger import FAULTS, Fate, LedgerLine, known_since
from tokimori.model.run import Run, SkipReason
from tokimori.model.transitions import RunState
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.validation import MOST_LISTED, moment_of
from tokimori.web.addresses import path
from tokimori.web.pictures import took
from tokimori.web.plan import firings, midnight
from tokimori.web.run_rows import LONGEST_SAID, whole_cause
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, day_name, duration, short

HOURS: Final = (96, 24, 6, 1)
"""The longest of these spans is shown that has at most a thousand lines."""
_LONG: Final = 1.2
"""Factor of the median duration from which a run is named as long."""
WHY: Final[Mapping[str, str]] = MappingProxyType(
    {
        SkipReason.MISFIRE: "missed, and its policy does not make it good",
        SkipReason.GRACE: "missed by more than its grace",
        SkipReason.OVERLAP: "another run was active",
        SkipReason.FULL: "too many runs waited",
        SkipReason.PAUSED: "the job was paused",
        SkipReason.PARKED: "the job was parked",
        Fate.BEFORE: "before the job was added",
        Fate.PRUNED: "older than what is kept",
        Fate.OPEN: "not decided yet",
        Fate.UNKNOWN: "the job was changed since",
        Fate.MISSING: "it has neither run nor skip: `tokimori doctor` says more",
        Fate.UNSCHEDULED: "the schedule does not name it: `tokimori doctor` says more",
        Fate.TWICE: "it has another run: `tokimori doctor` says more",
    }
)


class Line(NamedTuple):
    """An occurrence, or several in a row that became the same."""

    when: str
    state: str
    says: str
    why: str
    to: str | None
    run: str


class LedgerDay(NamedTuple):
    """A day with its lines, newest first, how many occurrences became what, and how many are to come."""

    name: str
    counts: Counter[str]
    lines: Sequence[Line]
    rest: int = 0

    @property
    def sums(self) -> str:
        """Return the sums in words."""
        number, parts = self.counts.total(), ", ".join(f"{count} {word}" for word, count in self.counts.items())
        of = f"{number} of {number + self.rest}" if self.rest else f"{number}" if len(self.counts) > 1 else ""
        return ": ".join(filter(None, (of, parts)))


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the fates of the occurrences of some days before a moment."""
    if job.state is JobState.DELETED or job.definition.schedule is None:
        return {"days": (), "older": None, "newest": None, "fault": None}
    zone, since = visit.zone_of(job.definition.time_zone), known_since(job, visit.now)
    until = visit.now if (given := visit.one("until")) is None else moment_of("until", given, zone)
    try:
        first, lines = await _read(visit, job, zone, since, min(until, visit.now))
    except InvalidInput as fault:
        return {"days": (), "older": None, "newest": visit.link(until=None), "fault": fault}
    days = _days(visit, zone, lines, await _runs(visit, job, first, until, lines))
    return {
        "days": days if given else await _with_rest(visit, job, zone, days),
        "older": visit.link(until=format_moment(Moment(first - 1))) if first > since else None,
        "newest": visit.link(until=None) if given else None,
        "fault": None,
    }


async def _read(visit: Visit, job: Job, zone: str, since: Moment, until: Moment) -> tuple[Moment, Sequence[LedgerLine]]:
    """Return the lines before a moment, the newest first, and since when: from a midnight on, if there are so few."""
    first, lines = until, tuple[LedgerLine, ...]()
    for hours in HOURS:
        begins = Moment(until - hours * HOUR)
        if hours >= 24 and (day := midnight(begins, zone)) != begins:
            begins = midnight(Moment(day + 36 * HOUR), zone)  # days have 23 to 25 hours
        first = min(max(begins, since), until)
        page = await visit.service.jobs.ledger(job.id, first, until, MOST_LISTED)
        lines = page.lines
        if page.next is None:
            break
    return first, lines[::-1]


async def _runs(visit: Visit, job: Job, first: Moment, until: Moment, lines: Sequence[LedgerLine]) -> Mapping[str, Run]:
    """Return the newest runs among these by their ids."""
    if not any(line.run_id for line in lines):
        return {}
    near = {"since": Moment(first - HOUR), "until": Moment(until + DAY), "limit": MOST_LISTED, "longest": LONGEST_SAID}
    return {run.id: run for run in await visit.service.runs.list(job_id=job.id, **near)}  # type: ignore[arg-type]


async def _with_rest(visit: Visit, job: Job, zone: str, days: Sequence[LedgerDay]) -> Sequence[LedgerDay]:
    """Return the days with a first line for what the schedule still names today, if it does."""
    if job.state is not JobState.ENABLED:
        return days
    ends = Moment(midnight(Moment(midnight(visit.now, zone) + 36 * HOUR), zone) - 1)  # days have 23 to 25 hours
    moments, number = await asyncio.to_thread(firings, schedule_for(job), visit.now, ends, job.runs_remaining)
    if not number:
        return days
    name, last = day_name(visit.now, zone, visit.now), moments[-1] if number == len(moments) else ends
    line = Line(_span(visit, zone, moments[0], last), "waiting", f"{number:,} to come", "", None, "")
    today, older = (days[0], days[1:]) if days and days[0].name == name else (LedgerDay(name, Counter(), ()), days)
    return [today._replace(lines=[line, *today.lines], rest=number), *older]


def _days(visit: Visit, zone: str, lines: Sequence[LedgerLine], runs: Mapping[str, Run]) -> Sequence[LedgerDay]:
    days = groupby(lines, key=lambda line: day_name(line.last, zone, visit.now))
    return [_day(visit, zone, name, list(each), runs) for name, each in days]


def _day(visit: Visit, zone: str, name: str, lines: Sequence[LedgerLine], runs: Mapping[str, Run]) -> LedgerDay:
    counts = Counter[str]()
    for line in lines:
        counts[_word(line)] += line.count
    return LedgerDay(name, counts, list(_merged(visit, zone, lines, runs)))


def _word(line: LedgerLine) -> str:
    return line.state.value if line.fate is Fate.RUN and line.state is not None else line.fate.value


def _alike(line: LedgerLine) -> tuple[str, str | None, str | None]:
    """Return the key of lines that are shown as one. Each failure has a line of its own."""
    alone = line.run_id if line.state is not RunState.SUCCEEDED or line.fate in FAULTS else None
    return _word(line), line.reason, alone


def _merged(visit: Visit, zone: str, lines: Sequence[LedgerLine], runs: Mapping[str, Run]) -> Iterator[Line]:
    for (word, reason, _), group in groupby(lines, key=_alike):
        some = list(group)
        first, last, count = min(line.first for line in some), max(line.last for line in some), some[0].count
        count = sum(line.count for line in some)
        run_id = some[0].run_id if len(some) == 1 else None
        known = [runs[line.run_id] for line in some if line.run_id is not None and line.run_id in runs]
        why = WHY.get(reason or some[0].fate, reason or "") if some[0].fate is not Fate.RUN else ""
        yield Line(
            when=_span(visit, zone, first, last),
            state="ran" if count > 1 and word == RunState.SUCCEEDED else word,
            says=f"{count} {word}" if count > 1 else _origin_text(some[0], known),
            why=why or _said(known),
            to=None if run_id is None else path("runs", run_id),
            run="" if run_id is None else short(run_id),
        )


def _origin_text(line: LedgerLine, known: Sequence[Run]) -> str:
    if line.origin not in (None, "schedule"):
        return line.origin or ""
    return f"after {known[0].attempt} attempts" if known and known[0].attempt > 1 else ""


def _said(runs: Sequence[Run]) -> str:
    """Return why a run has failed, or how long runs took that went well."""
    if any(run.state is not RunState.SUCCEEDED for run in runs):
        return whole_cause(runs[0])
    lengths = [length for run in runs if (length := took(run)) is not None]
    if len(lengths) < 2:
        return f"took {duration(lengths[0])}" if lengths else ""
    middle, most = median(lengths), max(lengths)
    return f"median {duration(round(middle))}{f', longest {duration(most)}' if most > _LONG * middle else ''}"


def _span(visit: Visit, zone: str, first: Moment, last: Moment) -> str:
    """Return the clock times of the first and the last one, with the day of the first if that is another."""
    begins, ends = (clock_time(each, zone, visit.now).split()[-1] for each in (first, last))
    if begins.endswith(":00") and ends.endswith(":00"):
        begins, ends = begins.removesuffix(":00"), ends.removesuffix(":00")
    days = [day_name(each, zone, visit.now) for each in (first, last)]
    return begins if first == last else f"{'' if days[0] == days[1] else f'{days[0]} '}{begins} – {ends}"
