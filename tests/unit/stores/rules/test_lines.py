"""The rules of lines: who fits, who has to join, and who is next."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.stores.rules.lines import LinePlace, fits, must_join, programs_served, runs_woken

places = st.builds(LinePlace, st.integers(0, 9), st.sampled_from("abcdef"), st.integers(1, 4))
lines = st.lists(places, max_size=8, unique_by=lambda place: place[:2]).map(sorted)
maybe = st.none() | places


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5))
def test_what_fits_is_no_more_than_there_is(used: int, limit: int, weight: int) -> None:
    """So many units more are held within the limit; zero is no limit."""
    assert fits(used, limit, weight) == (limit == 0 or used + weight <= limit)


@given(st.integers(0, 9), lines, maybe)
def test_the_head_of_a_line_is_never_passed(free: int, line: list[LinePlace], first: LinePlace | None) -> None:
    """Who is served is a beginning of the line that fits together; the next one does not fit, or is behind a run."""
    served = programs_served(free, line, first)
    assert served == line[: len(served)]
    assert sum(place.weight for place in served) <= free
    assert all(first is None or place.rank <= first.rank for place in served)
    for head in line[len(served) :][:1]:
        room = sum(place.weight for place in (*served, head)) <= free
        assert not room or (first is not None and head.rank > first.rank)


@given(st.integers(0, 9), lines, maybe)
def test_as_many_runs_are_woken_as_fit(free: int, line: list[LinePlace], program: LinePlace | None) -> None:
    """Who is woken is a beginning of the lane that fits together; the next one does not fit, or a program is before."""
    woken = runs_woken(free, line, program)
    assert woken == line[: len(woken)]
    assert sum(place.weight for place in woken) <= free
    for head in line[len(woken) :][:1]:
        room = sum(place.weight for place in (*woken, head)) <= free
        assert not room or (program is not None and program.rank <= head.rank)


@given(lines, lines)
def test_in_a_line_there_is_always_somebody_next(programs: list[LinePlace], runs: list[LinePlace]) -> None:
    """With all units free, whoever is first of programs and runs is served."""
    if not programs and not runs:
        return
    first_run = runs[0] if runs else None
    granted = programs_served(4, programs, first_run)
    left = programs[len(granted) :]
    free = 4 - sum(place.weight for place in granted)
    assert granted or runs_woken(free, runs, left[0] if left else None)


@given(places, st.booleans(), maybe, maybe)
def test_nobody_takes_a_unit_before_his_turn(
    run: LinePlace, room: bool, ahead: LinePlace | None, program: LinePlace | None
) -> None:
    """A run joins the line where units lack, or where a run of its lane or a program is before it."""
    before = (ahead is not None and ahead[:2] < run[:2]) or (program is not None and program.rank <= run.rank)
    assert must_join(run, fits=room, ahead=ahead, program=program) == (not room or before)
