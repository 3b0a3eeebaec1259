"""The fields of a cron expression: what each may hold, read into bit sets and printed back."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from msgspec import Struct

from tokimori.errors import InvalidSchedule
from tokimori.schedules.days import FIRST_YEAR, LAST_YEAR, lowest


class LastDay(Struct, frozen=True, order=True):
    """`L`, or `L-n`: n days before the last day of the month."""

    before: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 if it has none."""
        return max(length - self.before, 0)

    def __str__(self) -> str:
        return f"L-{self.before}" if self.before else "L"


class LastWorkday(Struct, frozen=True, order=True):
    """`LW`: the last working day (Monday to Friday) of the month; `L-nW`: the one nearest to n days before its end."""

    before: int = 0

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 if it has none."""
        return _nearest_workday(length - self.before, length, first) if self.before < length else 0

    def __str__(self) -> str:
        return f"L-{self.before}W" if self.before else "LW"


class NearestWorkday(Struct, frozen=True, order=True):
    """`nW`: the working day (Monday to Friday) of the month nearest to day n; none if the month has no day n."""

    near: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 if it has none."""
        return _nearest_workday(self.near, length, first) if self.near <= length else 0

    def __str__(self) -> str:
        return f"{self.near}W"


class NthWeekday(Struct, frozen=True, order=True):
    """`w#n`: the nth (1 to 5) such weekday of the month."""

    weekday: int
    nth: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 if it has none."""
        day = 1 + (self.weekday - first) % 7 + 7 * (self.nth - 1)
        return day if day <= length else 0

    def __str__(self) -> str:
        return f"{self.weekday}#{self.nth}"


class LastWeekday(Struct, frozen=True, order=True):
    """`wL`: the last such weekday of the month."""

    weekday: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday."""
        return length - (first + length - 1 - self.weekday) % 7

    def __str__(self) -> str:
        return f"{self.weekday}L"


SpecialDay = LastDay | LastWorkday | NearestWorkday | NthWeekday | LastWeekday


def _nearest_workday(day: int, length: int, first: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 0:
        return day + 1 if day < length else day - 2
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    return day


_VALUE = r"\d{1,4}|[a-z]{3,9}"
_TERM = re.compile(rf"(?:\*|({_VALUE})(?:-({_VALUE}))?)(?:/(\d{{1,4}}))?\Z", re.ASCII | re.IGNORECASE)
_SPREAD_TERM = re.compile(rf"H(?:\(({_VALUE})-({_VALUE})\))?(?:/(\d{{1,4}}))?\Z", re.ASCII | re.IGNORECASE)
_DAY_TERM = re.compile(r"(?:L(?:-(\d{1,2}))?(W?)|(\d{1,2})W)\Z", re.ASCII | re.IGNORECASE)
_WEEKDAY_TERM = re.compile(r"(\d|[a-z]{3,9}?)(?:#(\d)|L)\Z", re.ASCII | re.IGNORECASE)

_LETTERS = frozenset("LlWw#")
"""Every day that depends on the month is written with at least one of these."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"),
    "december",
)
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


@dataclass(frozen=True, eq=False, slots=True)
class FieldKind:
    """Range of one field of an expression: low … high, and names for the numbers from low on, short or in full.

    Bit n of a field's bits is the value n + `zero`. `more` says what else is allowed, for people.
    """

    name: str
    low: int
    high: int
    full_names: tuple[str, ...] = ()
    zero: int = 0
    more: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return their first three letters."""
        return tuple(name[:3] for name in self.full_names)

    @property
    def allowed(self) -> str:
        """Return the allowed values, for people."""
        names = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{names}, with * , - / and H{self.more}"


SECOND = FieldKind("second", 0, 59)
MINUTE = FieldKind("minute", 0, 59)
HOUR = FieldKind("hour", 0, 23)
DAY = FieldKind("day of month", 1, 31, more=", ? L L-n LW L-nW nW")
MONTH = FieldKind("month", 1, 12, _MONTHS)
WEEKDAY = FieldKind("day of week", 0, 7, _WEEKDAYS, more=", ? n#k nL")
YEAR = FieldKind("year", FIRST_YEAR, LAST_YEAR, zero=FIRST_YEAR)


class Field(NamedTuple):
    """The values of a field as bits, and the days that depend on the month. `star`: its text begins with `*`.

    Besides its values the star matters: it decides whether days of the month and of the week are united (Vixie cron),
    and whether a time counts as fixed where clocks jump.
    """

    bits: int
    star: bool
    special: tuple[SpecialDay, ...] = ()


def parse_field(kind: FieldKind, text: str, spread: str) -> Field:
    """Read a field; `spread` (a job's id) decides what `H` stands for. Raises `InvalidSchedule`."""
    known = _KNOWN[kind].get(text)
    if known is not None:
        return known
    if (kind is DAY or kind is WEEKDAY) and not _LETTERS.isdisjoint(text):
        return _parse_days(kind, text, spread)
    bits = 0
    for term in text.split(","):
        bits |= _bits(kind, _values(kind, term, spread))
    return Field(bits, text.startswith("*"))


def star(kind: FieldKind) -> Field:
    """Return the field `*`."""
    return _KNOWN[kind]["*"]


def _parse_days(kind: FieldKind, text: str, spread: str) -> Field:
    """Read a field that may hold days that depend on the month."""
    bits, special = 0, set()
    for term in text.split(","):
        day = _special_day(kind, term)
        if day is None:
            bits |= _bits(kind, _values(kind, term, spread))
        else:
            special.add(day)
    return Field(bits, text.startswith("*"), tuple(sorted(special, key=str)))


def _top(kind: FieldKind) -> int:
    """Return the largest value, where Sunday is 0."""
    return 6 if kind is WEEKDAY else kind.high


def _span(kind: FieldKind, first: int, last: int) -> int:
    """Return the bits of all values from first to last."""
    return (1 << last - kind.zero + 1) - (1 << first - kind.zero)


def _bits(kind: FieldKind, values: Iterable[int]) -> int:
    if isinstance(values, range) and values:  # a bit every `step`: 0b10010010010 is (2**12 - 1) // (2**3 - 1) * 2
        step = values.step
        return ((1 << step * len(values)) - 1) // ((1 << step) - 1) << values[0] - kind.zero
    bits = 0
    for value in values:
        bits |= 1 << value - kind.zero
    return bits


def _values(kind: FieldKind, term: str, spread: str) -> Iterable[int]:
    """Return the values of a term without special days."""
    if term.isascii() and term.isdigit() and len(term) < 5:
        number = _number(kind, term, kind.low, kind.high, term)
        return (0,) if kind is WEEKDAY and number == 7 else (number,)
    found = _TERM.match(term)
    if found is None:
        return _spread_values(kind, term, spread)
    low, high, every = found.groups()
    step = _step(kind, every, term)
    top = _top(kind)
    if low is None:
        return range(kind.low, top + 1, step)
    first = _value(kind, low, term)
    if high is not None:
        return _range(kind, first, _value(kind, high, term), step, term)
    first = 0 if kind is WEEKDAY and first == 7 else first
    return (first,) if every is None else range(first, top + 1, step)


def _range(kind: FieldKind, first: int, last: int, step: int, term: str) -> Iterable[int]:
    """Return the values from first to last; if last is smaller, over the end of the field (`fri-mon`, `22-2`)."""
    if last < first and kind is YEAR:
        _refuse(kind, term)
    if first <= last <= _top(kind):
        return range(first, last + 1, step)
    low, size = kind.low, (7 if kind is WEEKDAY else kind.high - kind.low + 1)
    through = last if first <= last else last + size
    return ((value - low) % size + low for value in range(first, through + 1, step))


def _spread_values(kind: FieldKind, term: str, spread: str) -> Iterable[int]:
    """Return the values of `H`, which depends on the job's id only and spreads jobs; `H/n`: every n from it on."""
    found = _SPREAD_TERM.match(term)
    if found is None or kind is YEAR:
        _refuse(kind, term)
    low, high, every = found.groups()
    default_high = {DAY: 28, WEEKDAY: 6}.get(kind, kind.high)
    first = kind.low if low is None else _value(kind, low, term)
    last = default_high if high is None else _value(kind, high, term)
    if last < first:
        _refuse(kind, term)
    number = int.from_bytes(blake2b(f"{kind.name}\0{spread}".encode(), digest_size=8).digest())
    size, step = last - first + 1, _step(kind, every, term)
    if every is None:
        last = first = first + number % size
    else:
        first += number % min(step, size)
    return _range(kind, first, last, step, term)


def _special_day(kind: FieldKind, term: str) -> SpecialDay | None:
    if kind is DAY and (found := _DAY_TERM.match(term)):
        before, last_workday, near = found.groups()
        if near is not None:
            return NearestWorkday(_value(kind, near, term))
        return (LastWorkday if last_workday else LastDay)(_number(kind, before or "0", 0, 30, term))
    if kind is WEEKDAY and (found := _WEEKDAY_TERM.match(term)):
        weekday = _value(kind, found[1], term) % 7
        return LastWeekday(weekday) if found[2] is None else NthWeekday(weekday, _number(kind, found[2], 1, 5, term))
    return None


def _value(kind: FieldKind, text: str, term: str) -> int:
    if not text.isdigit():
        for number, name in enumerate(kind.full_names, kind.low):
            if text.lower() in {name, name[:3]}:
                return number
        _refuse(kind, term)
    return _number(kind, text, kind.low, kind.high, term)


def _step(kind: FieldKind, text: str | None, term: str) -> int:
    return 1 if text is None else _number(kind, text, 1, 9999, term)


def _number(kind: FieldKind, text: str, low: int, high: int, term: str) -> int:
    number = int(text)
    if not low <= number <= high:
        _refuse(kind, term)
    return number


def _refuse(kind: FieldKind, term: str) -> NoReturn:
    message = f"{kind.name}: {term!r} is not allowed"
    raise InvalidSchedule(message, field=kind.name, value=term, allowed=kind.allowed)


def print_field(kind: FieldKind, field: Field) -> str:
    """Return the shortest plain text of the field: the same values, star and special days."""
    bits = field.bits
    terms = [] if not field.star else [_star_term(kind, field)]
    if field.star:
        bits &= ~_bits(kind, _values(kind, terms[0], ""))
    while bits:
        first = lowest(bits)
        length = lowest(~(bits >> first))
        bits &= ~(((1 << length) - 1) << first)
        low, high = first + kind.zero, first + kind.zero + length - 1
        terms += [f"{low}-{high}"] if length > 2 else [str(value) for value in range(low, high + 1)]
    return ",".join([*terms, *map(str, field.special)])


def _star_term(kind: FieldKind, field: Field) -> str:
    """Return `*/n` with the smallest n whose values are all in the field. It was read from such a text."""
    step = 1
    while _bits(kind, _values(kind, f"*/{step}", "")) & ~field.bits:
        step += 1
    return f"*/{step}" if step > 1 else "*"


def _common_fields(kind: FieldKind) -> dict[str, Field]:
    every = Field(_span(kind, kind.low, _top(kind)), star=True)
    fields = {str(n): Field(1 << n - kind.zero, star=False) for n in range(kind.low, _top(kind) + 1)}
    return fields | {"*": every} | ({"?": every} if kind in (DAY, WEEKDAY) else {})


_KNOWN = {kind: _common_fields(kind) for kind in (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR)}
"""The fields of one value, and `*`: nearly all that people write."""
