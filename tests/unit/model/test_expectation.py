"""Expectations: when a good end is expected, and which alarm there has to be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR
from tokimori.clock import DAY, HOUR, SECOND, Moment
from tokimori.model.expectation import (
    RELOOK,
    Alarm,
    AlarmKind,
    Expectation,
    decode_alarm,
    decode_expectation,
    encode_alarm,
    encode_expectation,
    expected_by,
    looked_at,
    rested,
)


def at(seconds: float) -> Moment:
    """So many seconds after the new year."""
    return Moment(NEW_YEAR + round(seconds * SECOND))


def expecting(**fields: Any) -> Expectation:
    """Something that is expected every 100 seconds from the new year on."""
    whole: dict[str, Any] = {"name": "backup", "within": 100.0, "since": at(0), "expected_by": at(0), "look_at": at(0)}
    return Expectation(**(whole | {"touched": at(0)} | fields))


@pytest.mark.parametrize(
    ("fields", "now", "kind"),
    [
        ({}, 99.999, None),
        ({}, 100, AlarmKind.OVERDUE),
        ({"good": at(50)}, 149, None),
        ({"good": at(50)}, 150, AlarmKind.OVERDUE),
        ({"good": at(-50)}, 60, None),
        ({"failed": at(10)}, 11, AlarmKind.FAILED),
        ({"failed": at(10), "good": at(9)}, 11, AlarmKind.FAILED),
        ({"failed": at(10), "good": at(12)}, 13, None),
        ({"started": at(1)}, 101, AlarmKind.OVERDUE),
    ],
)
def test_when_there_is_an_alarm(fields: dict[str, Any], now: float, kind: AlarmKind | None) -> None:
    """Nothing good in time after the last good end, or after it was expected first; or a failure that was reported."""
    known = expecting(**fields)
    after, alarm = looked_at(known, at(now))
    assert (None if alarm is None else alarm.kind) == kind
    assert after.expected_by == expected_by(known.base, 100)
    assert after.look_at == (after.expected_by if alarm is None else at(now) + RELOOK)


def test_an_alarm_says_what_was_expected() -> None:
    """Since when there is one, by when something was expected, and what is known of the last good end."""
    _, alarm = looked_at(expecting(good=at(7), log="12 GB", of_job=True), at(200))
    assert alarm == Alarm(
        kind=AlarmKind.OVERDUE,
        name="backup",
        since=at(200),
        expected_by=at(107),
        within=100,
        of_job=True,
        last_good=at(7),
        log="12 GB",
    )
    assert decode_alarm(encode_alarm(alarm)) == alarm


def test_where_nothing_is_due_the_clock_starts_at_what_is_due_next() -> None:
    """Over a weekend off a job that runs daily is not overdue; on Monday it is, if it does not end well in time."""
    friday, monday = at(0), Moment(NEW_YEAR + 3 * DAY)
    assert expected_by(friday, 25 * 3600, Moment(NEW_YEAR + DAY)) == Moment(NEW_YEAR + 25 * HOUR)
    assert expected_by(friday, 25 * 3600, monday) == monday + 25 * HOUR
    assert expected_by(friday, 25 * 3600, None) == Moment(NEW_YEAR + 25 * HOUR)


def test_what_rests_is_expected_from_its_end_on() -> None:
    """The time in which a job is paused does not count."""
    assert rested(expecting(good=at(-500)), at(1000), at(1010)).expected_by == at(1100)
    assert looked_at(rested(expecting(), at(1000), at(1010)), at(1050))[1] is None


def test_a_long_wait_is_looked_at_every_day() -> None:
    """So a good end is known here before the run that tells of it is pruned."""
    assert looked_at(expecting(within=40 * 86_400), at(5))[0].look_at == at(5) + DAY


@given(within=st.floats(1, 10**9), good=st.none() | st.integers(-(10**9), 10**9), now=st.integers(-(10**9), 10**9))
def test_a_good_end_takes_back_every_alarm(within: float, good: int | None, now: int) -> None:
    """Whatever was known before, right after a good end there is no alarm, and what is known is kept as written."""
    known = expecting(within=within, good=None if good is None else at(good), failed=at(now - 1))
    after, alarm = looked_at(replace(known, good=at(now)), at(now))
    assert alarm is None
    assert after.look_at > at(now)
    assert decode_expectation(encode_expectation(after)) == after
