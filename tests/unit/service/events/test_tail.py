"""The tail tells of each end once, in whatever order transactions end."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR
from tokimori.clock import SECOND, Moment
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.transitions import RunState
from tokimori.ports.ends import LATEST, EndedRun, EndPlace
from tokimori.service.events.tail import NEAR, Tail


def an_end(number: int, seconds: float) -> EndedRun:
    """The end of a run, written so many seconds after the new year."""
    written = Moment(NEW_YEAR + round(seconds * SECOND))
    return EndedRun(
        written=written,
        id=RunId(f"run-{number:06}"),
        job_id=JobId("job"),
        incarnation=Incarnation(1),
        state=RunState.SUCCEEDED,
        origin="m:x",
        nominal=written,
        attempt=1,
    )


def test_what_was_told_of_is_not_told_of_again() -> None:
    """An end that is read twice is fresh once."""
    tail, end = Tail[EndedRun](NEW_YEAR), an_end(1, 1)
    assert tail.fresh([end]) == [end]
    assert tail.fresh([end, an_end(2, 2)]) == [an_end(2, 2)]


def test_while_little_happens_all_is_read_again() -> None:
    """The next look begins where nothing can appear any more, as long as few ends lie behind that."""
    tail = Tail[EndedRun](NEW_YEAR)
    tail.fresh(an_end(n, 30 + n / 1000) for n in range(NEAR - 1))
    assert tail.near == tail.final == EndPlace(NEW_YEAR)


def test_of_many_only_the_newest_are_read_again() -> None:
    """Where many ends lie behind it, the next look begins at the `NEAR` newest of them."""
    tail = Tail[EndedRun](NEW_YEAR)
    tail.fresh(an_end(n, 1 + n / 1000) for n in range(3 * NEAR))
    assert tail.near == EndPlace(an_end(0, 1 + 2 * NEAR / 1000).written)


def test_what_is_final_is_forgotten() -> None:
    """Of ends before which nothing can appear any more nothing is kept."""
    tail = Tail[EndedRun](NEW_YEAR)
    tail.fresh([an_end(1, 1), an_end(2, 2), an_end(3, 3)])
    tail.settle(EndPlace(an_end(2, 2).written))
    assert (tail.size, tail.final) == (2, EndPlace(an_end(2, 2).written))
    tail.settle(EndPlace(NEW_YEAR))
    assert tail.final == EndPlace(an_end(2, 2).written)


def test_a_clock_that_is_set_back_is_noticed() -> None:
    """A correction is none; what is over a second is a jump."""
    tail = Tail[EndedRun](NEW_YEAR)
    assert tail.look(Moment(NEW_YEAR + 60 * SECOND))
    assert tail.look(Moment(NEW_YEAR + 60 * SECOND - SECOND // 2))
    assert tail.bound == NEW_YEAR + 60 * SECOND - LATEST
    assert not tail.look(NEW_YEAR)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=40))
def test_each_end_is_told_of_once_however_late_it_appears(ends: list[tuple[int, int]]) -> None:
    """If one looks every second, an end that appears up to 9 s after its moment is told of, and never again."""
    tail, told = Tail[EndedRun](NEW_YEAR), list[str]()
    known = [(an_end(n, written), written + late) for n, (written, late) in enumerate(ends)]
    for second in range(80):
        assert tail.look(Moment(NEW_YEAR + second * SECOND))
        visible = [end for end, seen in known if seen <= second and end.written >= tail.near.written]
        told += [each.id for each in tail.fresh(sorted(visible, key=lambda end: (end.written, end.id)))]
        tail.settle(EndPlace(tail.bound))
    assert sorted(told) == [end.id for end, _ in known]
