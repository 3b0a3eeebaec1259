"""A position is a text that every node understands."""

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.service.events.test_tail import an_end
from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidInput
from tokimori.ports.ends import LATEST, EndPlace
from tokimori.service.events.position import Position, behind_each, position_at, position_from, position_of

PLACES = [
    Position(written=NEW_YEAR),
    Position(written=NEW_YEAR, feed="0a1b2c3d", number=17),
    Position(written=NEW_YEAR, tie=""),
    Position(written=NEW_YEAR, tie="0190f7a0-0000-7000-8000-000000000000"),
    Position(written=NEW_YEAR, tie="17"),
]


@pytest.mark.parametrize("position", PLACES)
def test_what_is_written_is_read(position: Position) -> None:
    """A position is read from its own text."""
    assert position_of(str(position), NEW_YEAR) == position


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.2.3", "17.0a1b2c3d", "1~g", "1~-", "1~0-5", "9" * 17, None, 5, "١", "1\n"]
)
def test_what_is_none_is_refused(text: object) -> None:
    """The field, the value and what is allowed are named."""
    with pytest.raises(InvalidInput) as caught:
        position_of(text, NEW_YEAR)
    assert (caught.value.field, caught.value.value) == ("after", text)
    assert caught.value.allowed


def test_the_future_is_refused() -> None:
    """But for what a clock has said that was days ahead, whatever the kind of position: who follows then goes on."""
    with pytest.raises(InvalidInput):
        position_of(str(NEW_YEAR + 8 * DAY), NEW_YEAR)
    for tie in ("", "~17", "~"):
        assert position_of(f"{NEW_YEAR + 2 * DAY}{tie}", NEW_YEAR).written == NEW_YEAR + 2 * DAY


def test_reading_begins_before_a_moment_and_at_a_place() -> None:
    """What others were writing at a moment may have appeared later; nothing can appear before an exact place."""
    assert PLACES[0].place == PLACES[1].place == EndPlace(Moment(NEW_YEAR - LATEST))
    assert position_from(NEW_YEAR).place == EndPlace(NEW_YEAR)
    assert position_at(EndPlace(NEW_YEAR, "x")).place == EndPlace(NEW_YEAR, "x")
    assert Position(written=Moment(5)).place == EndPlace(Moment(0))


def test_each_event_of_a_page_has_its_position() -> None:
    """In a feed they are numbered up to the end of the page; in the store each is the moment of the event."""
    page = [an_end(1, 1), an_end(2, 2)]
    end = Position(written=NEW_YEAR, feed="0a1b2c3d", number=9)
    assert [(each.written, each.number) for each in behind_each(page, end)] == [
        (page[0].written, 8),
        (page[1].written, 9),
    ]
    assert behind_each(page, position_from(NEW_YEAR)) == [Position(written=each.written) for each in page]
