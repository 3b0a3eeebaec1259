"""Plan of firings as lanes over a period: what ran and what is to come, reckoned and drawn. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import chain, groupby, islice
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.schedules.counting import count_until
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.schedule import Schedule, each_moment
from tokimori.schedules.zones import on_clocks, stretches_between, zone_info
from tokimori.spelling import amount
from tokimori.web.words import whole_length, written

MOST_TICKS: Final = 120
"""A lane with more firings is drawn as a band."""
MOST_WALKED: Final = 1_500
"""Number of firings of a job looked at for the busiest minute."""
ROW, TOP = 28, 28
_LABEL: Final = 9.0
"""Percent of the width that a label above the lanes takes."""
_EPOCH: Final = datetime(1970, 1, 1).toordinal()


class Window(NamedTuple):
    """The period that is shown, on the clocks of a zone."""

    first: Moment
    last: Moment
    now: Moment
    zone: str

    def percent(self, at: int) -> float:
        """Return the place of a moment, within the picture."""
        return round(max(0.0, min(100.0, (at - self.first) / (self.last - self.first) * 100)), 2)


class Tick(NamedTuple):
    """Run or firing: its begin and end, its tone (empty: to come; `next`: due, not begun), and its title."""

    first: Moment
    last: Moment
    tone: str
    says: str


class Lane(NamedTuple):
    """A lane: its ticks, and how many firings are to come.

    `is_dense`: these are more than one can see. `off` are days on which nothing fires, and `note` says what stops it.
    `unread` is the stretch before the first run that is drawn, in which there may be more runs.
    """

    name: str
    to: str | None
    says: str
    ticks: Sequence[Tick]
    number: int
    is_dense: bool
    off: Sequence[tuple[Moment, Moment]]
    note: str = ""
    unread: tuple[Moment, Moment] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to draw."""
        return not (self.ticks or self.number or self.off or self.note)


def firings(
    schedule: Schedule, after: Moment, through: Moment, remaining: int | None = None
) -> tuple[Sequence[Moment], int]:
    """Return the moments within after < t <= through, only the first if they are many, and their number.

    `remaining` bounds that number: so many runs of the job are left.
    """
    found = list(islice(each_moment(schedule, after, through), MOST_WALKED + 1))
    number = len(found) if len(found) <= MOST_WALKED else count_until(schedule, after, through)[0]
    number = number if remaining is None else min(number, remaining)
    return found[: min(number, MOST_WALKED)], number


def days_off(days: DaysOff, window: Window, zone: str) -> Sequence[tuple[Moment, Moment]]:
    """Return the rows of days off within the window, on the clocks of the job's zone."""
    day, found = on_clocks(zone, window.first).date(), list[tuple[Moment, Moment]]()
    while (begins := _midnight(day.year, day.month, day.day, zone)) < window.last:
        day += timedelta(days=1)
        if days.last_in_row(day.toordinal() - 1 - _EPOCH) is None:
            continue
        ends = _midnight(day.year, day.month, day.day, zone)
        if found and found[-1][1] == begins:
            found[-1] = (found[-1][0], ends)
        else:
            found.append((begins, ends))
    return found


def _midnight(year: int, month: int, day: int, zone: str) -> Moment:
    return Moment(int(datetime(year, month, day, tzinfo=zone_info(zone)).timestamp()) * SECOND)


def midnight(at: Moment, zone: str) -> Moment:
    """Return the beginning of the day of a moment, on the clocks of the zone."""
    local = on_clocks(zone, at)
    return _midnight(local.year, local.month, local.day, zone)


def busiest(moments: Iterable[Moment]) -> tuple[Moment, int] | None:
    """Return the minute with most firings, of several the first, and how many these are."""
    counts = Counter(at // MINUTE for at in moments)
    if not counts:
        return None
    minute, most = min(counts.items(), key=lambda each: (-each[1], each[0]))
    return Moment(minute * MINUTE), most


def collisions(lengths: Iterable[tuple[Moment, Moment]]) -> Sequence[tuple[Moment, Moment, int]]:
    """Return the stretches in which at least two of these are at once, and how many at most."""
    edges = sorted(chain.from_iterable(((first, 1), (last, -1)) for first, last in lengths))
    found, level, begins, most = list[tuple[Moment, Moment, int]](), 0, Moment(0), 0
    for at, changes in groupby(edges, key=lambda edge: edge[0]):
        was, level = level, level + sum(change for _, change in changes)
        if was < 2 <= level:
            begins, most = at, level
        elif was >= 2 > level:
            found.append((begins, at, most))
        most = max(most, level)
    return found


def jumps(window: Window) -> Iterator[tuple[Moment, Moment, str]]:
    """Yield the stretches that clocks of the window's zone repeat, and the moments at which they skip some."""
    for each in stretches_between(window.zone, window.first, window.last):
        if window.first < each.start < window.last:
            leap = each.offset - each.before
            says = f"clocks {'skip' if leap > 0 else 'repeat'} {whole_length(abs(leap))}"
            around = 0 if leap > 0 else -leap
            yield Moment(each.start - around), Moment(each.start + around), says


def marks(window: Window) -> Sequence[tuple[Moment, str]]:
    """Return the lines of the scale with their labels: every second hour, or every day."""
    span = window.last - window.first
    if span <= 2 * DAY:
        first = midnight(window.first, window.zone)
        found = [Moment(at) for at in range(first, window.last + 1, 2 * HOUR) if at >= window.first]
        return [(at, _clock(at, window.zone)) for at in found]
    found, at = [], midnight(window.first, window.zone)
    while at <= window.last:
        found += [at] if at >= window.first else []
        at = midnight(Moment(at + 30 * HOUR), window.zone)
    named = 1 if span <= 10 * DAY else 3
    return [(at, _day(at, window.zone) if place % named == 0 else "") for place, at in enumerate(found)]


def _clock(at: Moment, zone: str) -> str:
    local = on_clocks(zone, at)
    return f"{local:%a} {local.day}" if local.hour == 0 else f"{local:%H:%M}"


def _day(at: Moment, zone: str) -> str:
    local = on_clocks(zone, at)
    return f"{local:%a} {local.day} {local:%b}"


def to_come(lanes: Sequence[Lane]) -> Iterator[tuple[Tick, Lane]]:
    """Yield the firings to come that are drawn, the soonest first; none of a stopped job: these will be skipped."""
    return merge(*map(_to_come, lanes), key=lambda pair: pair[0].first)


def _to_come(lane: Lane) -> Iterator[tuple[Tick, Lane]]:
    return ((tick, lane) for tick in lane.ticks if not (tick.tone or lane.note))


def picture(lanes: Sequence[Lane], window: Window) -> Markup:
    """Return the lanes over the period, without their names."""
    high = TOP + ROW * len(lanes)
    drawn = [_HATCH, *_shaded(lanes, window, high), *_scale(window, high)]
    for row, lane in enumerate(lanes):
        drawn += _lane(lane, window, TOP + row * ROW)
    if window.first < window.now < window.last:
        x = window.percent(window.now)
        place = ' class="acc t halo e"' if x > 90 else ' class="acc t halo"'
        drawn.append(f'<line class="s acc" x1="{x}%" x2="{x}%" y1="18" y2="{high}"/>')
        clock = f"{on_clocks(window.zone, window.now):%H:%M}"
        drawn.append(f'<text{place} x="{x}%" dx="{-4 if x > 90 else 4}" y="26">now {clock}</text>')
    period = f"from {said(window.first, window)} to {said(window.last, window)}"
    label = f"Firings of {amount(len(lanes), 'lane')} {period}; those to come are listed below"
    return Markup(  # noqa: S704  numbers, and texts that are escaped
        f'<svg width="100%" height="{high}" role="img" aria-label="{written(label)}">{"".join(drawn)}</svg>'
    )


_HATCH: Final = (
    '<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path class="hl" d="M0 0v7" stroke-width="3"/></pattern></defs>'
)


def said(at: Moment, window: Window) -> str:
    """Return the day and the time of a moment."""
    return f"{_day(at, window.zone)} {on_clocks(window.zone, at):%H:%M}"


def _shaded(lanes: Sequence[Lane], window: Window, high: int) -> Iterator[str]:
    """Yield the background of all lanes: many firings at once, and changes of the clocks."""
    least = (window.last - window.first) // 288
    long = [(tick.first, tick.last) for tick, _ in to_come(lanes) if tick.last - tick.first >= least]
    free = window.percent(window.now) + _LABEL if window.first < window.now else -1.0
    for first, last, most in collisions(long):
        says = f"{said(first, window)}: {most} long ones at once"
        yield _rect("f amber soft", (first, last), window, (28, high - 28), f"<title>{written(says)}</title>")
        x = window.percent(first)
        if x > free:  # else it would cover another label
            free = x + _LABEL
            yield f'<text class="amber t halo{" e" if x > 90 else ""}" x="{x}%" y="26">{most} at once</text>'
    for first, last, says in jumps(window):
        x = window.percent(last)
        place, away = ("e", -4) if x > 80 else ("", 4)
        yield _rect("f violet soft", (first, last), window, (28, high - 28))
        yield f'<line class="s violet dash" x1="{x}%" x2="{x}%" y1="28" y2="{high}"/>'
        yield f'<text class="violet t halo {place}" x="{x}%" dx="{away}" y="26">≈ {written(says)}</text>'


def _scale(window: Window, high: int) -> Iterator[str]:
    is_long = window.last - window.first > 10 * DAY
    for number, (at, says) in enumerate(marks(window)):
        x = window.percent(at)
        place = "w4" if x < 2 else "e w4" if x > 97 else "m"  # near its neighbour where there is less room
        yield f'<line class="hl" x1="{x}%" x2="{x}%" y1="22" y2="{high}"/>'
        place += " w4" if is_long and number % 6 else ""
        yield f'<text class="{place}" x="{x}%" y="14">{written(says)}</text>' if says else ""


def _lane(lane: Lane, window: Window, y: int) -> Iterator[str]:
    yield f'<line class="hl" x1="0" x2="100%" y1="{y}.5" y2="{y}.5"/>'
    for first, last in lane.off:
        says = "<title>day off</title>"
        yield _rect("", (first, last), window, (y + 1, ROW - 1), says).replace("<rect ", '<rect fill="url(#hatch)" ')
    x = window.percent(max(window.now, window.first))
    if lane.is_dense:
        yield _rect("next", (max(window.now, window.first), window.last), window, (y + 19, 5))
    if lane.is_dense and not lane.note:
        yield f'<text class="halo" x="{x}%" dx="6" y="{y + 14}">{written(lane.says)}: {lane.number:,} to come</text>'
    if lane.unread:
        yield _rect("f ok", lane.unread, window, (y + 19, 5), "<title>earlier runs, not one by one</title>")
    for tick in lane.ticks:
        if lane.is_dense and tick.tone in ("", "ok", "q"):
            continue
        tone = "next" if tick.tone in ("", "next") else f"f {tick.tone}"
        box = (y + 19, 5) if lane.note and not tick.tone else (y + 7, 15)  # below the note
        yield _rect(tone, (tick.first, tick.last), window, box, f"<title>{written(tick.says)}</title>")
        if tick.tone == "bad":
            yield _rect(tone, (tick.first, tick.last), window, (y + 24, 2))
    if lane.note:
        tone = "bad" if lane.note.startswith("■") else "amber"
        yield f'<text class="{tone} t halo" x="{x}%" dx="6" y="{y + 14}">{written(lane.note)}</text>'


def _rect(kind: str, span: tuple[int, int], window: Window, box: tuple[int, int], inner: str = "") -> str:
    """Return a stretch; `box` is how far down it is, and how high."""
    (first, last), (y, high) = span, box
    x = window.percent(first)
    wide = max(0.22, round(window.percent(last) - x, 2))
    return f'<rect class="{kind}" x="{min(x, 99.78)}%" y="{y}" width="{wide:g}%" height="{high}">{inner}</rect>'


def calendar_file(events: Iterable[tuple[str, Moment, int, str]], now: Moment, name: str) -> str:
    """Return events (id, begin, length, text) as a calendar (RFC 5545), in UTC."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Tokimori//Plan//EN", f"X-WR-CALNAME:{_ics(name)}"]
    for job_id, at, length, says in events:
        lines += ["BEGIN:VEVENT", f"UID:{at}-{_ics(job_id)}@tokimori", f"DTSTAMP:{_utc(now)}", f"DTSTART:{_utc(at)}"]
        lines += [f"DURATION:PT{max(1, length // SECOND)}S", f"SUMMARY:{_ics(job_id)}", f"DESCRIPTION:{_ics(says)}"]
        lines += ["TRANSP:TRANSPARENT", "END:VEVENT"]
    return "".join(f"{folded}\r\n" for folded in map(_folded, [*lines, "END:VCALENDAR"]))


def _utc(at: Moment) -> str:
    return f"{on_clocks('UTC', at):%Y%m%dT%H%M%SZ}"


def _ics(text: str) -> str:
    for mark in "\\;,":
        text = text.replace(mark, f"\\{mark}")
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text.replace("\n", " "))


def _folded(line: str) -> str:
    """Return the line in pieces of at most 75 bytes, no letter cut."""
    if len(line.encode()) < 75:
        return line
    pieces, size = [""], 0
    for letter in line:
        size += len(letter.encode())
        if size > 74:
            pieces.append(" ")
            size = 1 + len(letter.encode())
        pieces[-1] += letter
    return "\r\n".join(pieces)
