"""Times of the day on a set of days, the times of several such sets, and one set without others."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tokimori.clock import SECOND
from tokimori.schedules.days import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    EVERY_DAY,
    Days,
    in_both,
    in_first_only,
    lowest,
    share_a_month,
)

_DAY = 86_400  # seconds
_ALL_HOURS = (1 << 24) - 1
_EVERY_HOUR = sum(1 << 60 * hour for hour in range(24))
_FEW_CLOCKS = 3
"""Of more of them it is asked first which have the day."""
MOST_PIECES = 500
"""Number of sets of days that may be left of one without others, as each is asked by itself."""
_MOST_LOOKS, _LOOK, _CUT = 20_000, 1, 40
"""How much the pairs that are compared may cost: one look, or one cut if they have times in common."""


class WallClock(Struct, frozen=True):
    """Wall-clock times (a `WallTimes`): every day of `days` at every minute of `minutes` and second of `seconds`.

    `minutes` has a bit for each minute of the day (0 … 1439), `seconds` one for each second of the minute.
    """

    days: Days
    minutes: int
    seconds: int

    def at_or_after(self, wall: int) -> int | None:
        """Return the first time at or after the given one (microseconds)."""
        day, second = divmod(-(-wall // SECOND), _DAY)
        found = self.days.at_or_after(day)
        if found == day:
            minute, second = divmod(second, 60)
            minutes = self.minutes >> minute
            if minutes & 1 and (seconds := self.seconds >> second):
                return (day * _DAY + minute * 60 + second + lowest(seconds)) * SECOND
            if minutes := minutes >> 1:
                minute += 1 + lowest(minutes)
                return (day * _DAY + minute * 60 + lowest(self.seconds)) * SECOND
            found = self.days.at_or_after(day + 1)
        if found is None:
            return None
        return (found * _DAY + lowest(self.minutes) * 60 + lowest(self.seconds)) * SECOND

    def at_or_before(self, wall: int) -> int | None:
        """Return the last time at or before the given one (microseconds)."""
        # Minutes and seconds are sets of bits: a mask keeps those up to one, and the length of the rest gives the last.
        day, second = divmod(wall // SECOND, _DAY)
        found = self.days.at_or_before(day)
        if found == day:
            minute, second = divmod(second, 60)
            minutes = self.minutes & (2 << minute) - 1
            if minutes >> minute and (seconds := self.seconds & (2 << second) - 1):
                return (day * _DAY + minute * 60 + seconds.bit_length() - 1) * SECOND
            if minutes := minutes & (1 << minute) - 1:
                return (day * _DAY + (minutes.bit_length() - 1) * 60 + self.seconds.bit_length() - 1) * SECOND
            found = self.days.at_or_before(day - 1)
        if found is None:
            return None
        return (found * _DAY + (self.minutes.bit_length() - 1) * 60 + self.seconds.bit_length() - 1) * SECOND

    def has(self, wall: int) -> bool:
        """Return whether the time (microseconds) is one of them."""
        minute, second = divmod(wall // SECOND, 60)
        if wall % SECOND or not (self.minutes >> minute % 1440 & 1 and self.seconds >> second & 1):
            return False
        return self.days.has(minute // 1440)

    def count(self, low: int, high: int) -> int:
        """Count the times t with low <= t < high."""
        first_day, first_second = divmod(-(-low // SECOND), _DAY)
        last_day, last_second = divmod(-(-high // SECOND), _DAY)
        whole = self.days.count(first_day, last_day) * self.minutes.bit_count() * self.seconds.bit_count()
        return whole + self._count_before(last_day, last_second) - self._count_before(first_day, first_second)

    def _count_before(self, day: int, second: int) -> int:
        """Count the times on the day before its given second."""
        if second == 0 or not self.days.count(day, day + 1):
            return 0
        minute, second = divmod(second, 60)
        past = (self.minutes & (1 << minute) - 1).bit_count() * self.seconds.bit_count()
        return past + (self.minutes >> minute & 1) * (self.seconds & (1 << second) - 1).bit_count()


def minutes_of_day(hours: int, minutes: int) -> int:
    """Return the minutes of the day as bits, from the hours (24 bits) and the minutes of the hour (60 bits)."""
    if hours == _ALL_HOURS:
        return minutes * _EVERY_HOUR
    bits = 0
    while hours:
        bits |= minutes << 60 * lowest(hours)
        hours &= hours - 1
    return bits


EVERY_SECOND = WallClock(
    Days(EVERY_DAY, ALL_MONTHS, years=-1, weekdays=ALL_WEEKDAYS), minutes=(1 << 1440) - 1, seconds=(1 << 60) - 1
)


class Clocks(Struct, frozen=True):
    """The times of any of the clocks (a `WallTimes`)."""

    clocks: tuple[WallClock, ...]

    def at_or_after(self, wall: int) -> int | None:
        """Return the first time at or after the given one: on its day, where most are found, or later."""
        if len(self.clocks) > _FEW_CLOCKS:
            day = -(-wall // SECOND) // _DAY
            today = [at for each in self.clocks if each.days.has(day) and (at := each.at_or_after(wall)) is not None]
            if today and (first := min(today)) < (day + 1) * _DAY * SECOND:
                return first
        return min([at for each in self.clocks if (at := each.at_or_after(wall)) is not None], default=None)

    def at_or_before(self, wall: int) -> int | None:
        """Return the last time at or before the given one: on its day, or earlier."""
        if len(self.clocks) > _FEW_CLOCKS:
            day = wall // SECOND // _DAY
            today = [at for each in self.clocks if each.days.has(day) and (at := each.at_or_before(wall)) is not None]
            if today and (last := max(today)) >= day * _DAY * SECOND:
                return last
        return max([at for each in self.clocks if (at := each.at_or_before(wall)) is not None], default=None)

    def has(self, wall: int) -> bool:
        """Return whether the time is one of them."""
        return any(each.has(wall) for each in self.clocks)

    def count(self, low: int, high: int) -> int:
        """Count the times t with low <= t < high, one by one: they may have times in common."""
        number, at = 0, self.at_or_after(low)
        while at is not None and at < high:
            number, at = number + 1, self.at_or_after(at + 1)
        return number


def any_of(clocks: Sequence[WallClock]) -> WallClock | Clocks:
    """Return the times of any of the clocks."""
    return clocks[0] if len(clocks) == 1 else Clocks(tuple(clocks))


def joined(clocks: Iterable[WallClock]) -> list[WallClock]:
    """Return the same times in fewer clocks: those that differ in minutes alone, or seconds alone, are one."""
    minutes: dict[tuple[Days, int], int] = {}
    for clock in clocks:
        minutes[clock.days, clock.seconds] = minutes.get((clock.days, clock.seconds), 0) | clock.minutes
    seconds: dict[tuple[Days, int], int] = {}
    for (days, second), minute in minutes.items():
        seconds[days, minute] = seconds.get((days, minute), 0) | second
    return [WallClock(days, minute, second) for (days, minute), second in seconds.items()]


def minus(clock: WallClock, taken: Iterable[WallClock]) -> list[WallClock] | None:
    """Return the times of the clock that are in none of `taken`; None if they would be in too many pieces."""
    pieces, looks = [clock], _MOST_LOOKS
    for each in taken:
        left: list[WallClock] = []
        for piece in pieces:
            apart = not (piece.minutes & each.minutes and piece.seconds & each.seconds)
            if apart or not share_a_month(piece.days, each.days):
                left.append(piece)
            else:
                looks -= _CUT
                left += _minus_one(piece, each)
        looks -= _LOOK * len(pieces)
        pieces = left
        if looks < 0 or len(pieces) > MOST_PIECES:
            return None
    return pieces


def _minus_one(piece: WallClock, taken: WallClock) -> list[WallClock]:
    """Return the rest of a piece: its other days; on common days its other minutes; in these its other seconds."""
    both = in_both(piece.days, taken.days)
    if both.is_empty():
        return [piece]
    rest = [WallClock(days, piece.minutes, piece.seconds) for days in in_first_only(piece.days, taken.days)]
    rest.append(WallClock(both, piece.minutes & ~taken.minutes, piece.seconds))
    rest.append(WallClock(both, piece.minutes & taken.minutes, piece.seconds & ~taken.seconds))
    return [clock for clock in rest if clock.minutes and clock.seconds and not clock.days.is_empty()]
