"""The days of cron that depend on the month: `L`, `L-3`, `LW`, `L-3W`, `15W`, `fri#2`, `friL` (Quartz's notation)."""

from msgspec import Struct


class LastDay(Struct, frozen=True, order=True):
    """`L`, or `L-n`: n days before the last day of the month."""

    before: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 where it has none."""
        return max(length - self.before, 0)

    def __str__(self) -> str:
        return f"L-{self.before}" if self.before else "L"


class LastWorkday(Struct, frozen=True, order=True):
    """`LW`: the last working day (Monday to Friday) of the month; `L-nW`: the one nearest to n days before its end."""

    before: int = 0

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 where it has none."""
        return _nearest_workday(length - self.before, length, first) if self.before < length else 0

    def __str__(self) -> str:
        return f"L-{self.before}W" if self.before else "LW"


class NearestWorkday(Struct, frozen=True, order=True):
    """`nW`: the working day (Monday to Friday) of the month nearest to day n; none where the month has no day n."""

    near: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 where it has none."""
        return _nearest_workday(self.near, length, first) if self.near <= length else 0

    def __str__(self) -> str:
        return f"{self.near}W"


class NthWeekday(Struct, frozen=True, order=True):
    """`w#n`: the nth (1 to 5) such weekday of the month."""

    weekday: int
    nth: int

    def day(self, length: int, first: int) -> int:
        """Return the day of a month of that length whose 1st has that weekday; 0 where it has none."""
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
