"""The truth about cron: a walk over every minute or second, in code that shares nothing with the product.

Sets of numbers and `zoneinfo` only. A time is fixed where neither minute nor hour begins with `*`; a fixed time runs at
the end of a gap that swallows it (gap = shift), and only the first of two times (fold = first).
"""

import random
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import NamedTuple

from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.zones import zone_info

ODD_ZONES = (
    *("Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo", "America/Santiago", "Africa/Casablanca"),
    *("Antarctica/Troll", "Pacific/Chatham", "Europe/Paris", "America/New_York", "Europe/London"),
    *("Asia/Tehran", "America/Sao_Paulo", "Asia/Gaza", "America/Havana", "Asia/Amman"),
    *("America/Asuncion", "Africa/El_Aaiun", "America/Scoresbysund", "Asia/Beirut", "Atlantic/Azores"),
    *("America/St_Johns", "Australia/Adelaide", "Australia/Sydney", "Europe/Dublin", "Europe/Moscow"),
    *("Asia/Kathmandu", "Asia/Pyongyang", "America/Caracas", "Pacific/Kiritimati", "Pacific/Kwajalein"),
    *("Pacific/Fakaofo", "Antarctica/Casey", "Antarctica/Macquarie", "America/Nuuk", "Asia/Jerusalem"),
    *("Pacific/Easter", "Pacific/Norfolk", "Africa/Windhoek", "America/Los_Angeles", "Pacific/Auckland"),
)
Matches = Callable[[datetime], bool]
"""Whether a clock that shows a time says that it is the moment."""
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = {name: n for n, name in enumerate(_WEEKDAYS)} | {name: n for n, name in enumerate(_MONTHS, 1)}
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


class Wall(NamedTuple):
    """What a clock shows at a second of UTC, and the times that it has just jumped over.

    `late` is one of these, if it comes now where each comes as much later as the clock jumped.
    """

    utc: int
    shown: datetime
    second_pass: bool
    swallowed: tuple[datetime, ...]
    late: datetime | None


@cache
def transitions(zone: str, first_year: int = 1973, last_year: int = 2037) -> Sequence[int]:
    """The seconds of UTC at which the zone changes its offset, by halving between days."""
    info = zone_info(zone)

    def offset(second: int) -> timedelta | None:
        return datetime.fromtimestamp(second, info).utcoffset()

    start, stop = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first_year, last_year))
    found, known = [], offset(start)
    for day in range(start, stop, 86_400):
        low, high = day, day + 86_400
        before, known = known, offset(high)
        if before == known:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        found.append(high)
    return found


def walls(zone: str, start: int, stop: int, step: int) -> list[Wall]:
    """Every `step` seconds from start to stop (not included)."""
    info, size = zone_info(zone), timedelta(seconds=step)
    found: list[Wall] = []
    late: list[datetime] = []
    for utc in range(start, stop, step):
        at = datetime.fromtimestamp(utc, info)
        shown = at.replace(tzinfo=None, fold=0)
        swallowed: tuple[datetime, ...] = ()
        if found and shown - found[-1].shown > size:
            swallowed = tuple(shown - n * size for n in range(1, (shown - found[-1].shown) // size))
        late += reversed(swallowed)
        found.append(Wall(utc, shown, at.fold == 1, swallowed, late.pop(0) if late else None))
    return found


def truth(text: str, window: list[Wall], gap: Gap, fold: Fold) -> list[int]:
    """The seconds of UTC, of all but the first of the window, at which a job with this expression runs."""
    matches, fixed = matcher(text)
    return named(matches, window, gap, fold, fixed=fixed)


def named(matches: Matches, window: list[Wall], gap: Gap, fold: Fold, *, fixed: bool) -> list[int]:
    """The same for any rule about what a clock shows; fold and most of gap concern a `fixed` one only."""
    first, shift, later = fixed and fold is Fold.FIRST, fixed and gap is Gap.SHIFT, gap is Gap.LATER
    return [
        utc
        for utc, shown, second_pass, swallowed, late in window[1:]
        if (matches(shown) and not (first and second_pass))
        or (shift and any(map(matches, swallowed)))
        or (later and late and matches(late))
    ]


def matcher(text: str) -> tuple[Matches, bool]:
    """Whether a clock that shows a time matches the expression, and whether its time is fixed."""
    texts = text.lower().split()
    if len(texts) == 5:
        texts = ["0", *texts]
    second, minute, hour, day, month, weekday = (
        _values(part, *bounds) for part, bounds in zip(texts, _BOUNDS, strict=True)
    )
    both = texts[3].startswith(("*", "?")) or texts[5].startswith(("*", "?"))

    @cache
    def on_day(at: date) -> bool:
        by_day = at.day in day or any(_special(term, at) for term in texts[3].split(","))
        by_weekday = at.isoweekday() % 7 in weekday or any(_special(term, at) for term in texts[5].split(","))
        return at.month in month and ((by_day and by_weekday) if both else (by_day or by_weekday))

    def matches(at: datetime) -> bool:
        return at.minute in minute and at.hour in hour and at.second in second and on_day(at.date())

    return matches, not (texts[1].startswith("*") or texts[2].startswith("*"))


def _values(text: str, low: int, high: int) -> set[int]:
    return {value for term in text.split(",") for value in _term(term, low, high)}


def _term(term: str, low: int, high: int) -> Iterator[int]:
    span, _, step = term.partition("/")
    if term in _NAMES:
        yield _NAMES[term]
    if term in _NAMES or term in ("l", "lw") or term.startswith("l-") or term.endswith(("w", "l")) or "#" in term:
        return
    if span in ("*", "?"):
        first, last = low, high
    elif "-" in span:
        first, last = (_number(part) for part in span.split("-"))
    else:
        first = _number(span)
        last = high if step else first
    if last < first:
        last += high - low + 1
    for value in range(first, last + 1, int(step or 1)):
        yield low + (value - low) % (high - low + 1)


def _number(text: str) -> int:
    return int(_NAMES.get(text, text))


def _special(term: str, at: date) -> bool:
    if not set(term) & set("lw#"):
        return False
    length = monthrange(at.year, at.month)[1]
    days = [at.replace(day=day) for day in range(1, length + 1)]
    workdays = [day for day in days if day.isoweekday() < 6]
    if term == "l" or term.startswith("l-"):
        return at.day == length - int(term[2:] or 0)
    if term == "lw":
        return at == workdays[-1]
    if term.endswith("w"):
        near = int(term[:-1])
        # On a Saturday the Friday is as near as the Sunday is far: distance 1, weekends out, within the month.
        return near <= length and at == min(workdays, key=lambda day: abs(day.day - near))
    if "#" in term:
        weekday, nth = (_number(part) for part in term.split("#"))
        return at in [day for day in days if day.isoweekday() % 7 == weekday % 7][nth - 1 : nth]
    if term.endswith("l"):
        return at == [day for day in days if day.isoweekday() % 7 == _number(term[:-1]) % 7][-1]
    return False


def random_expression(rng: random.Random, *, seconds: bool = False) -> str:
    """An expression of 5 fields, or 6 with seconds, of all kinds of terms."""
    fields = [
        _random_field(rng, 0, 59, 0.3),
        _random_field(rng, 0, 23, 0.4, rng.choice([range(4), range(24)])),
        rng.choice(["*"] * 4 + [_random_field(rng, 1, 31, 0.3), rng.choice(["L", "L-2", "LW", "15W", "?", "1,L"])]),
        rng.choice(["*"] * 6 + [_random_field(rng, 1, 12, 0.3), "mar,OCT", "sep-apr"]),
        rng.choice(
            ["*"] * 4 + [_random_field(rng, 0, 6, 0.2), "sun", "7", "1-5", "fri-mon", "5-7", "0#1", "sunL", "?"]
        ),
    ]
    return " ".join([_random_field(rng, 0, 59, 0.2), *fields] if seconds else fields)


def _random_field(rng: random.Random, low: int, high: int, stars: float, likely: range | None = None) -> str:
    if rng.random() < stars:
        return rng.choice(["*", "*", f"*/{rng.randint(2, max(high // 2, 2))}"])
    return ",".join(_random_term(rng, low, high, likely) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def _random_term(rng: random.Random, low: int, high: int, likely: range | None) -> str:
    first = rng.choice(likely) if likely else rng.randint(low, high)
    last, step = rng.randint(low, high), rng.randint(2, 30)
    return rng.choice([f"{first}-{last}", f"{first}-{last}/{step % 7 + 1}", f"{first}/{step}", f"{first}", f"{first}"])
