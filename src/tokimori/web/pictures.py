"""Pictures of runs as SVG, made of numbers. Widths are percentages, so that they stretch without a script."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import HOUR, MINUTE, Moment
from tokimori.model.run import Run, first_begin
from tokimori.model.transitions import RunState
from tokimori.spelling import amount
from tokimori.web.words import duration, whole_length, written

BARS: Final = 20
"""The last runs of a job that its line shows."""
MOST_COMPARED: Final = 50
"""Number of the last runs of its job with which a running run is compared."""
BARS_WIDE: Final = 144
MOST_LABELS: Final = 5
_STEP, _BASE, _MOST, _USUAL = 6, 18, 16, 8
_BAR: Final = {RunState.SUCCEEDED: "ok", RunState.FAILED: "bad", RunState.RUNNING: "busy"}


def took(run: Run) -> int | None:
    """Return the microseconds from the first begin of a run to its end; None if that is unknown.

    Of runs that were read without their texts only the begin of the newest attempt is known.
    """
    begun = first_begin(run)
    return None if begun is None or run.ended is None else max(0, run.ended - begun)


def usual_of(runs: Iterable[Run]) -> tuple[int, int] | None:
    """Return the median and the 95th percentile of the lengths of successful runs; None if there are none."""
    ended = [run for run in runs if run.state is RunState.SUCCEEDED]
    lengths = sorted(length for run in ended if (length := took(run)) is not None)
    return (round(median(lengths)), lengths[-(-len(lengths) * 95 // 100) - 1]) if lengths else None


def median_of(runs: Iterable[Run]) -> int | None:
    """Return the median length of successful runs; None if there are none."""
    found = usual_of(runs)
    return None if found is None else found[0]


def bars(runs: Sequence[Run]) -> Markup:
    """Return the last runs (oldest first) as bars: a failure has a foot, and a skip is only a foot."""
    usual = median_of(runs) or 0
    drawn: dict[str, str] = {}
    for place, run in enumerate(runs, BARS - len(runs)):
        x, tone, length = place * _STEP + 2.5, _BAR.get(run.state, "q"), took(run)
        high = 1.5 if length is None else _height(length, usual)
        if run.state in (RunState.FAILED, RunState.RUNNING):
            high = max(high, _USUAL)  # one that failed at once is seen as well
        foot = f"M{x} 22v-2.5" if run.state is RunState.FAILED else ""
        drawn[tone] = f"{drawn.get(tone, '')}M{x} {_BASE}v-{high:g}{foot}"
    label = _states_text(runs)
    paths = "".join(f'<path class="s w5 {tone}" d="{path}"/>' for tone, path in drawn.items())
    return Markup(  # noqa: S704  made of numbers and of words of ours
        f'<svg class="bars" width="{BARS * _STEP}" height="24" role="img" aria-label="{label}">'
        f"<title>{label}</title>{paths}</svg>"
    )


def _height(length: int, usual: int) -> float:
    return _USUAL if usual == 0 else min(_MOST, max(3, round(_USUAL * length / usual)))


def _states_text(runs: Sequence[Run]) -> str:
    if not runs:
        return "no runs yet"
    states = [run.state for run in runs]
    return f"last {len(runs)}: " + ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))


def histogram(numbers: Sequence[int], most: int, says: str) -> Markup:
    """Return failures by equal parts of a period, on a scale on which `most` is as high as the picture."""
    wide = round(BARS_WIDE / max(len(numbers), 1), 2)
    drawn = [
        f'<rect class="f bad" x="{place * wide:g}" y="{24 - high:g}" width="{wide - 1:g}" height="{high:g}"/>'
        for place, number in enumerate(numbers)
        if number and (high := max(3, round(20 * number / max(most, 1))))
    ]
    picture = f'<svg class="bars" width="{BARS_WIDE}" height="25" role="img" aria-label="{written(says)}">'
    base = f'<title>{written(says)}</title><path class="hl" d="M0 24.5h{BARS_WIDE}"/>'
    return Markup(f"{picture}{base}{''.join(drawn)}</svg>")  # noqa: S704  numbers, and a text that is escaped


def progress(elapsed: int, usual: int, late: int) -> Markup:
    """Return the bar of a running run: elapsed time over the median, with a mark at the 95th percentile (`late`)."""
    whole = max(late * 1.15, elapsed * 1.05, 1)
    so_far, middle, mark = (round(each / whole * 100, 1) for each in (elapsed, usual, late))
    tone = "amber" if elapsed > late else "busy"
    label = f"{duration(elapsed)} of about {duration(usual)}; 95 of 100 end within {duration(late)}"
    return Markup(  # noqa: S704  made of numbers
        f'<svg width="100%" height="20" role="img" aria-label="{label}"><title>{label}</title>'
        f'<rect class="f faint" y="6" width="{middle}%" height="8"/>'
        f'<rect class="f {tone}" y="6" width="{so_far}%" height="8"/>'
        f'<line class="s" x1="{mark}%" x2="{mark}%" y1="2" y2="18"/></svg>'
    )


def share(used: int, whole: int, of: str, tone: str = "busy") -> Markup:
    """Return the used part of a whole as a bar."""
    percent = min(100, round(100 * used / max(1, whole)))
    return Markup(  # noqa: S704  made of numbers and of words of ours
        f'<svg width="100%" height="20" role="img" aria-label="{used} of {whole} {of}">'
        f'<rect class="f faint" y="6" width="100%" height="8"/>'
        f'<rect class="f {tone}" y="6" width="{percent}%" height="8"/></svg>'
    )


class Minute(NamedTuple):
    """A minute of the strip: how many runs began or will begin in it, and how many of those have failed."""

    at: Moment
    runs: int
    failed: int = 0
    clock: str = ""


def strip(minutes: Sequence[Minute], now: Moment, marks: Sequence[Minute]) -> Markup:
    """Return the histogram of the hour before now and the next one. `marks` are the clock times below it."""
    since, most = now - HOUR, max([each.runs for each in minutes], default=1)
    scale, base = 58 / max(most, 6), 74
    drawn = ['<line class="hl" x1="0" x2="100%" y1="74.5" y2="74.5"/>']
    for each in minutes:
        x, high = _percent(each.at, since), round(each.runs * scale, 1)
        kind = "f ok" if each.at <= now else "next"
        label = f"{each.clock} · {amount(each.runs, 'firing')}"
        label += f", {each.failed} failed" if each.failed else ""
        drawn.append(_bar(kind, x, base - high, high, f"<title>{written(label)}</title>"))
        if each.failed:
            red = round(each.failed * scale, 1)
            drawn.append(_bar("f bad", x, base - high, red))
    drawn += list(_failure_labels(minutes, since, scale, base))
    for number, each in enumerate(marks):
        x = _percent(each.at, since)
        place = f"{'m' if x > 4 else ''}{' odd' if number % 2 else ''}"  # the first one has no room at its left
        drawn.append(f'<text class="{place.strip()}" x="{x}%" y="90">{written(each.clock)}</text>')
    drawn.append(
        '<line class="s acc" x1="50%" x2="50%" y1="6" y2="75"/><text class="acc t" x="50.5%" y="14">now</text>'
    )
    total, bad = sum(each.runs for each in minutes if each.at <= now), sum(each.failed for each in minutes)
    label = f"Runs by minute of the past hour and the next: {total} began, {bad} of them failed"
    return Markup(f'<svg width="100%" height="94" role="img" aria-label="{label}">{"".join(drawn)}</svg>')  # noqa: S704


def _failure_labels(minutes: Sequence[Minute], since: int, scale: float, base: int) -> Iterator[str]:
    """Yield how many failed in and around the worst minutes, none so near to another that one covers the other."""
    failing = sorted((each for each in minutes if each.failed), key=lambda minute: -minute.failed)
    labelled, apart = list[Minute](), list[Minute]()  # the latter on phones, too
    for each in failing:
        if len(labelled) < MOST_LABELS and all(abs(each.at - other.at) >= 10 * MINUTE for other in labelled):
            labelled.append(each)
    counts = Counter[Moment]()
    for each in failing:
        nearest = min(labelled, key=lambda other: abs(each.at - other.at))
        counts[nearest.at] += each.failed if abs(each.at - nearest.at) < 10 * MINUTE else 0
    for each in labelled:
        below = max(other.runs for other in minutes if abs(other.at - each.at) <= 2 * MINUTE)
        y = max(9, base - round(below * scale, 1) - 5)  # above its neighbours, over which the words reach
        ends = since + HOUR - each.at < 10 * MINUTE  # else it would cover the word for now
        place = f'x="{_percent(each.at, since)}%" y="{y}"' + ' text-anchor="end"' * ends
        is_near = any(abs(each.at - other.at) < 20 * MINUTE for other in apart)
        apart += [] if is_near else [each]
        odd = " odd" if is_near else ""  # a phone has no room for it
        yield f'<text class="bad t{"" if ends else " m"} halo{odd}" {place}>{counts[each.at]} failed</text>'


def _bar(kind: str, x: float, y: float, high: float, inner: str = "") -> str:
    return f'<rect class="{kind}" x="{x}%" y="{y:.1f}" width=".55%" height="{high}">{inner}</rect>'


def _percent(at: int, since: int) -> float:
    return round((at - since) / (2 * HOUR) * 100, 2)


class Span(NamedTuple):
    """A stretch of a waterfall: `dash` for one in which nothing ran."""

    first: Moment
    last: Moment
    tone: str
    says: str
    dash: bool = False


class Lane(NamedTuple):
    """A lane of a waterfall: its name, its stretches, and what came of it."""

    name: str
    spans: Sequence[Span]
    end: str
    tone: str


def waterfall(lanes: Sequence[Lane], first: Moment, last: Moment, begins: str) -> Markup:
    """Return the stretches of these lanes on one scale, which begins at a clock time."""
    span = max(last - first, 1)
    step = _step(span)
    every = max(2, -(-(span // step) // 2))  # the others have no room on a phone
    high = 26 * len(lanes) + 22
    drawn = []
    for number in range(span // step + 1):
        x = round(number * step / span * 100, 2)
        place = f"{'' if number == 0 else 'e' if x > 97 else 'm'}{' odd' if number % every else ''}".strip()
        name = begins if number == 0 else f"+{whole_length(number * step)}"
        drawn.append(f'<line class="hl" x1="{x}%" x2="{x}%" y1="18" y2="{high - 2}"/>')
        drawn.append(f'<text class="{place}" x="{x}%" y="12">{name}</text>')
    for row, lane in enumerate(lanes):
        drawn += [_stretch(each, first, span, 25 + 26 * row) for each in lane.spans]
    label = "; ".join(f"{lane.name}: {lane.end}" for lane in lanes)
    return Markup(  # noqa: S704  numbers, and texts that are escaped
        f'<svg width="100%" height="{high}" role="img" aria-label="{written(label)}">{"".join(drawn)}</svg>'
    )


def _stretch(each: Span, first: Moment, span: int, y: int) -> str:
    x, right = (round((at - first) / span * 100, 2) for at in (each.first, each.last))
    if each.dash:
        middle = round((x + right) / 2, 2)
        says = (
            f'<text class="m halo odd" x="{middle}%" y="{y + 3}">{written(each.says)}</text>' if right - x > 8 else ""
        )
        return f'<line class="s q dash" x1="{x}%" x2="{right}%" y1="{y + 7}" y2="{y + 7}"/>{says}'
    width = max(right - x, 0.4)
    return (
        f'<rect class="f {each.tone}" x="{min(x, 99.6)}%" y="{y}" width="{width:.2f}%" height="14" rx="2">'
        f"<title>{written(each.says)}</title></rect>"
    )


def _step(span: int) -> int:
    """Return the distance of the lines of a scale: at most seven of them, at round lengths."""
    second = MINUTE // 60
    steps = [second // 1000 * n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)]
    steps += [second * n for n in (1, 2, 5, 10, 20, 30)] + [MINUTE * n for n in (1, 2, 5, 10, 20, 30)]
    steps += [HOUR * n for n in (1, 2, 6, 12, 24)]
    return next((step for step in steps if span // step <= 6), -(-span // (6 * 24 * HOUR)) * 24 * HOUR)
