"""Tab with the runs of a job: as bars over a span, and as a list."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from tokimori.clock import DAY, HOUR, Moment
from tokimori.model.job import Job, JobState
from tokimori.model.run import NEVER, Run, Skip
from tokimori.model.transitions import RunState
from tokimori.service.validation import MOST_LISTED
from tokimori.web.chart import Bar, Mark, chart
from tokimori.web.pictures import took, usual_of
from tokimori.web.run_rows import LONGEST_SAID, run_rows
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, duration, offset_at

SHOWN: Final = 50
SPANS: Final = {"24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
BARS: Final = 96


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the bars of a span, and a page of the list."""
    before, span = visit.one("before"), visit.one("span") or "24h"
    found = await visit.service.runs.list(job_id=job.id, before=before, limit=SHOWN, longest=LONGEST_SAID)
    first = Moment(visit.now - SPANS.get(span, DAY))
    recent = (
        await visit.service.runs.list(job_id=job.id, since=first, limit=MOST_LISTED, longest=0)
        if found.runs and not before
        else ()
    )
    skips = () if job.state is JobState.DELETED else await visit.service.jobs.skips(job.id)
    skips = [skip for skip in skips if skip.last >= first]
    runs = [run for run in recent if run.due <= visit.now or run.due == NEVER]
    return {
        "runs": await run_rows(visit, found.runs),
        "more": None if found.next is None else visit.link(before=found.next),
        "first": visit.link(before=None) if before else None,
        "spans": [(name, visit.link(span=name, before=None), name == span) for name in SPANS],
        "sums": _sums(runs, skips),
        "chart": _chart(visit, job, runs, skips, first) if runs or skips else None,
        "bulk": ("runs.cancel", "runs.retry"),
        "match": f"?{urlencode({'job': job.id})}",
    }


def _sums(runs: Sequence[Run], skips: Sequence[Skip]) -> str:
    """Return how many runs ended how, in words."""
    counts = {state.value: sum(run.state is state for run in runs) for state in RunState}
    counts["skipped"] += sum(skip.count for skip in skips)
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    more = "the newest " if len(runs) == MOST_LISTED else ""
    return f"{more}{len(runs)} run{'s' if len(runs) != 1 else ''}{': ' if parts else ''}{', '.join(parts)}"


def _chart(visit: Visit, job: Job, runs: Sequence[Run], skips: Sequence[Skip], first: Moment) -> object:
    step, zone = (visit.now - first) // BARS, visit.zone_of(job.definition.time_zone)
    places: dict[int, list[Run]] = {}
    for run in runs:
        at = run.started or run.due
        places.setdefault(min(max(0, at - first) // step, BARS - 1), []).append(run)
    empty = {place for skip in skips for place in range(*_places(skip, first, step))} - set(places)
    bars = [_bar(place, each, visit, zone) for place, each in places.items()]
    bars += [Bar(place, None, 0, 0, "skipped") for place in empty]
    hours = 2 if visit.now - first <= DAY else 24 if visit.now - first <= 7 * DAY else 5 * 24
    whole = visit.now - first
    marks = [
        Mark((at - first) / whole * 100, _clock(at, zone, visit.now))
        for at in _marks(visit.now, first, hours * HOUR, zone)
    ]
    return chart(bars, usual_of(runs), marks, _sums(runs, skips))


def _places(skip: Skip, first: Moment, step: int) -> tuple[int, int]:
    return max(0, (skip.first - first) // step), min(BARS - 1, (skip.last - first) // step) + 1


def _bar(place: int, runs: Sequence[Run], visit: Visit, zone: str) -> Bar:
    """Return the bar of the runs that began at about the same time: as high as the longest of them took."""
    lengths = [length for run in runs if (length := took(run)) is not None]
    failed = sum(run.state is RunState.FAILED for run in runs)
    at = clock_time(runs[-1].started or runs[-1].due, zone, visit.now)
    states = ", ".join(dict.fromkeys(run.state.value for run in runs))
    label = f"{at} · {states if len(runs) == 1 else f'{len(runs)} runs: {states}'}"
    longest = max(lengths, default=None)
    return Bar(place, longest, len(runs), failed, label if longest is None else f"{label} · {duration(longest)}")


def _marks(now: Moment, first: Moment, step: int, zone: str) -> Sequence[Moment]:
    start = first + step - (first + offset_at(now, zone)) % step
    return [Moment(at) for at in range(start, now, step)]


def _clock(at: Moment, zone: str, now: Moment) -> str:
    text = clock_time(at, zone, now)
    day, _, clock = text.rpartition(" ")
    return clock[:5] if clock != "00:00:00" else " ".join(day.split()[:2]) or "today"
