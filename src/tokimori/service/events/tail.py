"""Tail of the order of ends: those that were reported, and the part that is to be read again. Pure.

Transactions end in another order than they begin, so an end may appear before ends that were read. All that was written
in the last `LATEST` is read once more: while little happens with each look, else once, `LATEST` later.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from tokimori.clock import SECOND, Moment
from tokimori.ports.ends import LATEST, EndPlace

NEAR = 500
"""Number of the newest ends that each look reads again."""
JUMP = SECOND
"""A clock that is set back by more has jumped; corrections are smaller (microseconds)."""


class WrittenRecord(Protocol):
    """Record of a feed: it has an id and a moment of writing."""

    @property
    def id(self) -> str:
        """Return the unique id."""
        ...

    @property
    def written(self) -> Moment:
        """By the store's clock."""
        ...


Record = TypeVar("Record", bound=WrittenRecord)
Record_co = TypeVar("Record_co", bound=WrittenRecord, covariant=True)


class Tail(Generic[Record]):
    """Records reported since the place `final`, before which nothing can appear any more."""

    def __init__(self, start: Moment) -> None:
        self.final = EndPlace(start)
        self._now = start
        self._seen: OrderedDict[str, Moment] = OrderedDict()
        self._newest: deque[Moment] = deque(maxlen=NEAR)

    def look(self, now: Moment) -> bool:
        """Begin a look at this store time. Return False if the clock was set back: new events lie before old ones."""
        if now < self._now - JUMP:
            return False
        self._now = max(self._now, now)
        return True

    @property
    def near(self) -> EndPlace:
        """From where on the next look reads."""
        if len(self._newest) < NEAR:
            return self.final
        return max(self.final, EndPlace(min(self._newest)))

    @property
    def bound(self) -> Moment:
        """Return the moment before which no further event can appear."""
        return Moment(self._now - LATEST)

    def fresh(self, found: Iterable[Record]) -> list[Record]:
        """Return the ends that were not reported yet; from now on they count as reported."""
        fresh = [each for each in found if each.id not in self._seen]
        for each in fresh:
            self._seen[each.id] = each.written
            self._newest.append(each.written)
        return fresh

    def settle(self, place: EndPlace) -> None:
        """Forget reported events before the place, which is not read again."""
        self.final = max(self.final, place)
        while self._seen and next(iter(self._seen.values())) < self.final.written:
            self._seen.popitem(last=False)

    @property
    def size(self) -> int:
        """Return how many ends count as reported."""
        return len(self._seen)
