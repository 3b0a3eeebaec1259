"""Tab with the runs of a job: as bars over a span, drawn here, and as a list."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from tokimori.clock import DAY, HOUR, Moment
from tokimori.model.job import Job, JobState
from tokimori.model.run import NEVER, Run, Skip, first_begin
from tokimori.model.transitions import RunState
from tokimori.service.validation import MOST_LISTED
from tokimori.spelling import amount
from tokimori.web.pictures import took, usual_of
from tokimori.web.run_rows import LONGEST_SAID, run_rows
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, duration, offset_at, written

_BASE, _HIGH, _WIDE = 116, 92, 0.72
_BARS: Final = 96
_MOST_NAMED: Final = 3
_LABEL: Final = 16
"""Number of places that a label takes on a phone."""


class Bar(NamedTuple):
    """Runs that began at about the same time, at one of 96 places: the longest length, and how many have failed."""

    place: int
    length: int | None
    runs: int
    failed: int
    says: str


class Mark(NamedTuple):
    """Mark below the bars, at `percent` percent of the span."""

    percent: float
    says: str


def chart(bars: Sequence[Bar], usual: tuple[int, int] | None, marks: Sequence[Mark], says: str) -> Markup:
    """Return the bars over a scale that the usual lengths fill: longer bars are broken, and say their length."""
    lengths = [bar.length for bar in bars if bar.length is not None]
    middle, rarely = usual or (max(lengths, default=1), max(lengths, default=1))
    top = max(round(rarely * 1.2), middle * 2, 1)
    drawn = [f'<line class="hl" x1="0" x2="100%" y1="{_BASE + 0.5}" y2="{_BASE + 0.5}"/>']
    if usual is not None:
        drawn += [f'<line class="s faint" x1="0" x2="100%" y1="{_y(v, top)}" y2="{_y(v, top)}"/>' for v in usual]
    for bar in bars:
        drawn.append(_drawn(bar, top))
    drawn += [_label(bar) for bar in _named(bar for bar in bars if bar.length is not None and bar.length > top)]
    for number, mark in enumerate(marks):
        if 2 < mark.percent < 98:
            odd = " odd" if number % 2 else ""
            drawn.append(f'<text class="m{odd}" x="{mark.percent:.2f}%" y="134">{written(mark.says)}</text>')
    picture = f'<svg width="100%" height="138" role="img" aria-label="{written(says)}">{"".join(drawn)}</svg>'
    return Markup(f'<div class="chart">{picture}{_gutter(usual, top)}</div>')  # noqa: S704  numbers, texts escaped


def _named(long: Iterable[Bar]) -> Sequence[Bar]:
    """Return the longest of these bars, none so near to another that one label covers the other."""
    named = list[Bar]()
    for bar in sorted(long, key=lambda bar: (-(bar.length or 0), -bar.place)):
        if len(named) < _MOST_NAMED and all(abs(bar.place - other.place) >= _LABEL for other in named):
            named.append(bar)
    return named


def _y(length: int, top: int) -> float:
    return round(_BASE - min(length, top) / top * _HIGH, 1)


def _drawn(bar: Bar, top: int) -> str:
    x = round(bar.place / _BARS * 100, 2)
    title = f"<title>{written(bar.says)}</title>"
    if bar.length is None:
        return f'<rect class="f q" x="{x}%" y="{_BASE - 2}" width="{_WIDE}%" height="2">{title}</rect>'
    high = max(2.0, _BASE - _y(bar.length, top))
    red = round(high * bar.failed / bar.runs, 1)
    parts = [_rect("ok", x, _BASE - high, high - red, title)] if red < high else []
    if red:
        parts.append(_rect("bad", x, _BASE - red, red, title))
        parts.append(_rect("bad", x, _BASE + 3, 3))
    if bar.length > top:
        parts.append(f'<rect class="gapped" x="{x}%" y="{_BASE - _HIGH + 10}" width="{_WIDE}%" height="3"/>')
    return "".join(parts)


def _rect(tone: str, x: float, y: float, high: float, inner: str = "") -> str:
    return f'<rect class="f {tone}" x="{x}%" y="{y:.1f}" width="{_WIDE}%" height="{high:.1f}">{inner}</rect>'


def _label(bar: Bar) -> str:
    x, place = (bar.place + 1) / _BARS * 100, "e" if bar.place > 5 else ""
    return f'<text class="{place}" x="{x:.2f}%" y="14">{duration(bar.length or 0)}</text>'


def _gutter(usual: tuple[int, int] | None, top: int) -> str:
    """Return the labels of the lines. Two that are close to each other share one."""
    if usual is None:
        return '<svg width="84" height="138" aria-hidden="true"></svg>'
    middle, rarely = (_y(each, top) for each in usual)
    texts = [(middle, f"median {duration(usual[0])}")]
    if middle - rarely >= 12:
        texts.append((rarely, f"95 %: {duration(usual[1])}"))
    if _BASE - middle >= 12:
        texts.append((_BASE, "0 s"))
    labels = "".join(f'<text y="{y + 4}">{written(text)}</text>' for y, text in texts)
    return f'<svg width="84" height="138" aria-hidden="true">{labels}</svg>'


SHOWN: Final = 50
SPANS: Final = {"24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
BARS: Final = 96


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the bars of a span, and a page of the list."""
    before, span = visit.one("before"), visit.one("span") or "24h"
    found = await visit.service.runs.list(job_id=job.id, before=before, limit=SHOWN, longest=LONGEST_SAID)
    first = Moment(visit.now - SPANS.get(span, DAY))
    recent = (
        await visit.service.runs.list(job_id=job.id, since=first, limit=MOST_LISTED, longest=LONGEST_SAID)
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
    return f"{more}{amount(len(runs), 'run')}{': ' if parts else ''}{', '.join(parts)}"


def _chart(visit: Visit, job: Job, runs: Sequence[Run], skips: Sequence[Skip], first: Moment) -> object:
    step, zone = (visit.now - first) // BARS, visit.zone_of(job.definition.time_zone)
    places: dict[int, list[Run]] = {}
    for run in runs:
        at = first_begin(run) or run.due
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
    at = clock_time(first_begin(runs[-1]) or runs[-1].due, zone, visit.now)
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
