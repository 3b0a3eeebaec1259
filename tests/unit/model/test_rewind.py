"""A cursor that is ahead goes back, and what has run already is remembered in few rows."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_definition, a_job, seconds
from tokimori.clock import DAY, HOUR, SECOND, Moment
from tokimori.model.job import Job, moments_in, schedule_of
from tokimori.model.rewind import MARGIN, Ahead, is_ahead, rewound, rows_of, without_passed
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Bounded, next_moments

few_moments = st.sets(st.integers(0, 60), max_size=30).map(lambda found: tuple(seconds(n * 10) for n in sorted(found)))


@given(few_moments)
def test_moments_are_the_same_as_rows(moments: tuple[Moment, ...]) -> None:
    """Whatever they are; and those of equal distance are one row."""
    assert moments_in(rows_of(moments)) == moments
    assert len(list(rows_of(moments))) <= len(moments)
    assert list(rows_of(seconds(n * 60) for n in range(1000))) == [(NEW_YEAR, 60 * SECOND, 1000)]


@given(few_moments, st.integers(-10, 700), st.integers(-10, 700))
def test_a_schedule_without_some_moments_names_the_others(without: tuple[Moment, ...], one: int, other: int) -> None:
    """Forwards, backwards and counted: also those left out that it did not name."""
    base = parse_schedule("* * * * * 0/20", zone="UTC")
    schedule = Bounded(base, None, None, without)
    after, through = seconds(min(one, other)), seconds(max(one, other))
    named = [each for each in next_moments(base, Moment(after), 100) if each <= through and each not in without]
    assert [each for each in next_moments(schedule, after, 100) if each <= through] == named
    assert count_until(schedule, after, through)[0] == len(named)
    last = schedule.last_before(Moment(through + 1))
    assert not named or last == named[-1]


def a_job_ahead(by: float, schedule: str = "0 * * * *", **changes: object) -> Job:
    """A job whose cursor is so many microseconds after the new year."""
    definition = a_definition(schedule=schedule)
    return a_job(definition, fired_through=Moment(NEW_YEAR + round(by)), anchor=NEW_YEAR, **changes)


def test_ahead_is_more_than_a_period_and_a_minute() -> None:
    """A job may have decided the moment that is next, as its node is a moment ahead of the store."""
    for by, ahead in ((0, False), (HOUR, False), (HOUR + MARGIN, False), (HOUR + MARGIN + 1, True)):
        job = a_job_ahead(by)
        assert is_ahead(job, schedule_of(job.definition, job.anchor, job.id), NEW_YEAR) is ahead


def test_what_the_cursor_has_passed_is_forgotten() -> None:
    """All at once, when it has passed the last."""
    job = a_job_ahead(2 * DAY, updated=Moment(NEW_YEAR + 2 * DAY))
    fired = (Moment(NEW_YEAR + HOUR), Moment(NEW_YEAR + 2 * HOUR))
    found = rewound(job, schedule_of(job.definition, job.anchor, job.id), Ahead(fired=fired), NEW_YEAR)
    assert found is not None
    assert found[0].definition.fired_ahead == ((fired[0], HOUR, 2),)
    assert without_passed(found[0]) is None
    cleaned = without_passed(a_job(found[0].definition, fired_through=fired[1]))
    assert cleaned is not None
    assert cleaned.definition.fired_ahead == ()
    assert without_passed(cleaned) is None
