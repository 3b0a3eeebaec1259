"""Times of the day on a set of days."""

from msgspec import Struct

from tokimori.clock import SECOND
from tokimori.schedules.days import Days, lowest

_DAY = 86_400  # seconds
_ALL_HOURS = (1 << 24) - 1
_EVERY_HOUR = sum(1 << 60 * hour for hour in range(24))


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
