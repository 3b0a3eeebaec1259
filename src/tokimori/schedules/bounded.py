"""A schedule within bounds: from a first moment on, up to a last one."""

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.schedules.schedule import Schedule


class Bounded(Struct, frozen=True):
    """Those moments of `base` that are neither before `first` nor after `last`; None = without bound."""

    base: Schedule
    first: Moment | None
    last: Moment | None

    def next_after(self, moment: Moment) -> Moment | None:
        """The first moment strictly after the given one."""
        found = self.base.next_after(self._from(moment))
        return None if found is None or (self.last is not None and found > self.last) else found

    def last_before(self, moment: Moment) -> Moment | None:
        """The last moment strictly before the given one."""
        found = self.base.last_before(moment if self.last is None else Moment(min(moment, self.last + 1)))
        return None if found is None or (self.first is not None and found < self.first) else found

    def count(self, after: Moment, through: Moment) -> int:
        """How many moments t there are with after < t <= through."""
        low, high = self._from(after), through if self.last is None else min(through, self.last)
        return self.base.count(low, Moment(high)) if low < high else 0

    def _from(self, moment: Moment) -> Moment:
        return moment if self.first is None else Moment(max(moment, self.first - 1))

    def __str__(self) -> str:
        return str(self.base)
