"""Position in the order of events, as a text that every node understands. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidInput
from tokimori.ports.ends import LATEST, EndPlace
from tokimori.service.events.tail import WrittenRecord

BETWEEN = "_"
"""Between the positions among ends and among changes."""
_TIE = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{0,19}"
"""Of a store with tables, or of Redis: none asks its database for anything else."""
_POSITION = re.compile(rf"(\d{{1,16}})(?:\.([0-9a-f]{{8}})\.(\d{{1,15}})|~({_TIE}))?\Z", re.ASCII)
_ALLOWED = "the position of an event, such as 1764095000123456 or 1764095000123456.a7570e74.3"


class Position(Struct, frozen=True, kw_only=True):
    """Place after the events written at this moment.

    If `feed` is that of the asked node, `number` says exactly which events are known. With a `tie` it is an exact place
    in the store, before which nothing is missing. With neither of them an event may have appeared later than its
    moment. Reading then begins `LATEST` earlier, and may return an event again.
    """

    written: Moment
    feed: str | None = None
    number: int = 0
    tie: str | None = None

    def __str__(self) -> str:
        """Return the text."""
        if self.feed is not None:
            return f"{self.written}.{self.feed}.{self.number}"
        return f"{self.written}" if self.tie is None else f"{self.written}~{self.tie}"

    @property
    def place(self) -> EndPlace:
        """Return the place in the store at which reading begins."""
        if self.tie is not None:
            return EndPlace(self.written, self.tie)
        return EndPlace(Moment(max(0, self.written - LATEST)))


def behind_each(page: Sequence[WrittenRecord], end: Position) -> Sequence[Position]:
    """Return the position behind each event of a page that ends there."""
    if end.feed is None:
        return [Position(written=each.written) for each in page]
    first = end.number - len(page) + 1
    return [Position(written=each.written, feed=end.feed, number=first + n) for n, each in enumerate(page)]


def before(page: Sequence[WrittenRecord], number: int, end: Position) -> Position:
    """Return the position before the event of this number (from 0) of a page that ends there."""
    written = page[number].written
    if end.feed is None:
        return position_from(written)
    return Position(written=written, feed=end.feed, number=end.number - len(page) + number)


def both_of(text: object, now: Moment) -> tuple[Position, Position]:
    """Return the positions among ends and among changes in a text of `text_of`, or behind the moment of a single one.

    Raises `InvalidInput`.
    """
    runs, mark, changes = text.partition(BETWEEN) if isinstance(text, str) else (text, "", "")
    first = position_of(runs, now)
    if mark:
        return first, position_of(changes, now)
    return first, Position(written=first.written, tie="" if first.tie == "" else None)  # its tie is that of an end


def text_of(positions: Sequence[Position]) -> str:
    """Return the positions of one or two feeds as one text."""
    return BETWEEN.join(map(str, positions))


def position_from(moment: Moment) -> Position:
    """Return the position before all events written at this moment or later."""
    return Position(written=moment, tie="")


def position_at(place: EndPlace) -> Position:
    """Return the exact place."""
    return Position(written=place.written, tie=place.tie)


def position_of(text: object, now: Moment) -> Position:
    """Return the position in the text. Raises `InvalidInput`, also for a moment that is over a week to come.

    A position may lie somewhat ahead: the store's clock may have been set back since.
    """
    found = _POSITION.match(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidInput(f"after: {text!r} is no position of an event", field="after", value=text, allowed=_ALLOWED)
    written, feed, number, tie = found.groups()
    if feed is None and int(written) > now + 7 * DAY:
        raise InvalidInput(f"after: {text!r} is a moment to come", field="after", value=text, allowed=_ALLOWED)
    return Position(written=Moment(int(written)), feed=feed, number=int(number or 0), tie=tie)
