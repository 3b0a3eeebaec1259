"""How long what has ended is kept."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_definition, a_job
from tokimori.clock import DAY, HOUR, Moment
from tokimori.model.ids import Incarnation, JobId, uuid7
from tokimori.model.policies import retention_of
from tokimori.model.retention import KEYS_KEPT, day_of, expiry_of, expiry_of_deleted, first_id_at
from tokimori.model.target import Unreadable

MOMENTS = st.integers(0, 2**47 * 1000).map(Moment)


@pytest.mark.parametrize(
    ("text", "length"),
    [("P7D", 7 * DAY), ("P2W", 14 * DAY), ("P1M", 31 * DAY), ("P1Y", 372 * DAY), ("P1DT1H", DAY + HOUR)],
)
def test_a_retention_has_a_length(text: str, length: int) -> None:
    """Weeks and days are exact; a month counts 31 days, so that nothing goes too early."""
    assert retention_of(text) == length


def test_scheduled_runs_go_sooner_than_keys() -> None:
    """A short retention lets scheduled runs go, while whatever has a key stays a month; a long one keeps both."""
    short = expiry_of(a_job(a_definition(retention="P1D")), NEW_YEAR)
    long = expiry_of(a_job(a_definition(retention="P90D")), NEW_YEAR)
    assert short is not None
    assert long is not None
    assert (short.before, short.keyed_before) == (NEW_YEAR - DAY, NEW_YEAR - KEYS_KEPT)
    assert long.before == long.keyed_before == NEW_YEAR - 90 * DAY


def test_all_runs_of_a_job_without_schedule_have_keys() -> None:
    """Of a job that runs on demand nothing is looked for among what must stay."""
    found = expiry_of(a_job(a_definition(schedule=None, retention="P1D")), NEW_YEAR)
    assert found is not None
    assert found.before == found.keyed_before == NEW_YEAR - KEYS_KEPT
    assert found.made_before == first_id_at(found.before)


def test_rows_of_what_can_not_be_read_stay() -> None:
    """How long rows of an unreadable job are to stay nobody here knows."""
    assert expiry_of(a_job(a_definition(target=Unreadable(text="{}", why="new"))), NEW_YEAR) is None


def test_deleted_jobs_keep_the_default() -> None:
    """Of a job that is gone nothing stays for its number, and everything for thirty days."""
    found = expiry_of_deleted(JobId("job"), Incarnation(1), NEW_YEAR)
    assert (found.keep_runs, found.before, found.keyed_before) == (0, NEW_YEAR - 30 * DAY, NEW_YEAR - 30 * DAY)


@given(MOMENTS, MOMENTS)
def test_ids_tell_what_is_old(made: Moment, bound: Moment) -> None:
    """A run made at a moment or later has no smaller id than the first one of that moment."""
    if made >= bound:
        assert uuid7(made, os.urandom) >= first_id_at(bound)
    elif made // 1000 < bound // 1000:
        assert uuid7(made, os.urandom) < first_id_at(bound)


@given(MOMENTS)
def test_a_day_begins_at_midnight(moment: Moment) -> None:
    """A moment is in the day that began at most a day before."""
    assert 0 <= moment - day_of(moment) < DAY
    assert day_of(moment) % DAY == 0


def test_a_retention_of_nothing_keeps_nothing() -> None:
    """What was asked for stays for an hour, while somebody whose answer was lost may ask again."""
    terms = {"retention": "PT0S", "schedule": "* * * * *"}
    found = expiry_of(a_job(a_definition(**terms)), NEW_YEAR)
    assert found is not None
    assert (found.before, found.keyed_before, found.keep_runs) == (NEW_YEAR, NEW_YEAR - HOUR, 0)
    asked = expiry_of(a_job(a_definition(schedule=None, retention="P0D")), NEW_YEAR)
    assert asked is not None
    assert asked.before == NEW_YEAR - HOUR
    kept = expiry_of(a_job(a_definition(**terms, keep_runs=5)), NEW_YEAR)
    assert kept is not None
    assert kept.keep_runs == 5
