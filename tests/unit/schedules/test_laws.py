"""What holds for every schedule, of whatever notation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.schedules.texts import Mode, anchors, edges, modes, schedules, texts, zones
from tokimori.clock import DAY, HOUR, Moment
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Schedule, next_moments

law = settings(deadline=None, max_examples=examples(200))  # the machine may be busy
moments = st.one_of(*[st.integers(0, 4_000_000_000_000_000).map(Moment)] * 3, edges)


@law
@given(schedules(), moments)
def test_the_next_moments_strictly_increase(schedule: Schedule, start: Moment) -> None:
    """Every next moment is later than the one before, and the first one is later than the start."""
    found = [start, *next_moments(schedule, start, 5)]
    assert found == sorted(set(found))


@law
@given(schedules(), moments, st.floats(0, 1))
def test_nothing_lies_between_a_moment_and_its_next(schedule: Schedule, start: Moment, part: float) -> None:
    """Asked from anywhere before the next moment, the answer is that moment again."""
    found = schedule.next_after(start)
    if found is not None:
        between = Moment(start + min(int((found - start - 1) * part), found - start - 1))
        assert schedule.next_after(between) == found
        assert schedule.next_after(Moment(found - 1)) == found


@law
@given(schedules(), moments)
def test_last_before_is_the_inverse_of_next_after(schedule: Schedule, start: Moment) -> None:
    """The last moment before the second next is the next; nothing lies between the last before and the next."""
    found = next_moments(schedule, start, 2)
    if len(found) == 2:
        assert schedule.last_before(found[1]) == found[0]
    last = schedule.last_before(start)
    if last is not None:
        assert last < start
        following = schedule.next_after(last)
        assert following is None or following >= start


@law
@given(schedules(), moments, st.integers(0, 30))
def test_count_is_the_number_of_steps(schedule: Schedule, start: Moment, steps: int) -> None:
    """As many moments as `next_after` walks through are counted, at the edges too."""
    found = next_moments(schedule, start, steps)
    if found:
        assert count_until(schedule, start, found[-1])[0] == len(found)
        assert count_until(schedule, found[0], found[-1])[0] == len(found) - 1
        assert count_until(schedule, start, Moment(found[-1] - 1))[0] == len(found) - 1
    assert count_until(schedule, start, start)[0] == 0


@law
@given(schedules(), moments, st.integers(0, 400), st.integers(0, 400))
def test_counts_add_up(schedule: Schedule, start: Moment, days: int, more: int) -> None:
    """What lies in two neighbouring spans lies in both together."""
    middle = Moment(start + days * DAY + 7 * HOUR)
    end = Moment(middle + more * DAY)
    assert (
        count_until(schedule, start, middle)[0] + count_until(schedule, middle, end)[0]
        == count_until(schedule, start, end)[0]
    )


@law
@given(texts, zones, anchors, modes)
def test_a_printed_schedule_is_read_back_as_the_same(text: str, zone: str, anchor: Moment, mode: Mode) -> None:
    """parse(print(s)) == s, with the same hash and the same text."""
    gap, fold = mode
    schedule = parse_schedule(text, zone=zone, anchor=anchor, gap=gap, fold=fold)
    again = parse_schedule(str(schedule), zone=zone, anchor=anchor, gap=gap, fold=fold)
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert str(again) == str(schedule)
