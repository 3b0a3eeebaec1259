"""A schedule within bounds, from a first moment on and up to a last one, and without some moments."""

from bisect import bisect_right

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.schedules.schedule import Schedule


class Bounded(Struct, frozen=True):
    """Moments of `base` that are neither before `first` nor after `last` (None: no bound), nor in `without`.

    `without` are in order: few, as each that is met costs as much as a moment.
    """

    base: Schedule
    first: Moment | None
    last: Moment | None
    without: tuple[Moment, ...] = ()

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        found = self.base.next_after(self._from(moment))
        while found is not None and self._is_out(found):
            found = self.base.next_after(found)
        return None if found is None or (self.last is not None and found > self.last) else found

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        found = self.base.last_before(moment if self.last is None else Moment(min(moment, self.last + 1)))
        while found is not None and self._is_out(found):
            found = self.base.last_before(found)
        return None if found is None or (self.first is not None and found < self.first) else found

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through."""
        low, high = self._from(after), through if self.last is None else min(through, self.last)
        if low >= high:
            return 0
        out = self.without[bisect_right(self.without, low) : bisect_right(self.without, high)]
        return self.base.count(low, Moment(high)) - sum(self.base.count(Moment(each - 1), each) for each in out)

    def _is_out(self, moment: Moment) -> bool:
        place = bisect_right(self.without, moment)
        return place > 0 and self.without[place - 1] == moment

    def _from(self, moment: Moment) -> Moment:
        return moment if self.first is None else Moment(max(moment, self.first - 1))

    def __str__(self) -> str:
        return str(self.base)
