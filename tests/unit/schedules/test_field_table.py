"""Koyomi's field table; its texts and its match table from `reference/koyomi.md` §4 and §5."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import names
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments

MATCHES = [
    ("*/*/* *:5 (*)", "2015-05-24T09:05", True),
    ("*/*/* *:5 (*)", "2015-05-24T09:06", False),
    ("*/*/* 0:* (*)", "2015-05-24T00:15", True),
    ("*/*/* 23:* (*)", "2015-05-24T11:06", False),
    ("*/12/* *:* (*)", "2015-12-24T00:15", True),
    ("*/1/* *:* (*)", "2015-02-24T11:06", False),
    ("2015/*/* *:* (*)", "2015-12-24T00:15", True),
    ("2020/*/* *:* (*)", "2015-02-24T11:06", False),
    ("*/*/1 *:* (*)", "2015-05-01T15:15", True),
    ("*/*/31 *:* (*)", "2015-05-30T11:06", False),
    ("*/*/* *:* (7)", "2015-05-24T00:15", True),
    ("*/*/* *:* (2)", "2015-05-25T11:06", False),
    ("*/*/24 *:* (6)", "2015-05-24T16:15", True),
    ("*/*/1 *:* (7)", "2015-05-24T16:15", True),
    ("*/*/24 *:* (7)", "2015-05-24T16:15", True),
    ("*/*/31 *:* (2)", "2015-05-24T16:15", False),
]

REFUSED_BY_KOYOMI = [
    *("*/*/* */5:0 (*)", "*/*/* 1,2:0 (*)", "*/*/*  0:0 (*)", "*/*/* 0:0", "*/*/* 0:0 (10)", "*/*/* 0:0 (Mon)", ""),
]

NONSENSE = [
    ("99999/13/32 25:61 (9)", "minute"),
    ("*/13/* 0:0 (*)", "month"),
    ("**/*/* *:* (*)", "schedule"),
    ("*1/*/* *:* (*)", "schedule"),
    ("*/*/* 05:05 (0)", "day of week"),
    ("*/*/* 0:0 (8)", "day of week"),
    ("2015/2/30 0:0 (*)", "day of month"),
]


@pytest.mark.parametrize(("text", "when", "expected"), MATCHES)
def test_it_matches_as_koyomi_does(text: str, when: str, expected: bool) -> None:
    """Sixteen of Koyomi's seventeen cases; the other one, weekday 0, is refused here."""
    assert names(parse_schedule(text), at(when)) is expected


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("*/*/* *:* (*)", "*/*/* *:* (*)"),
        ("2015/*/* 0:0 (7)", "2015/*/* 0:0 (7)"),
        ("*/*/* 05:05 (1)", "*/*/* 5:5 (1)"),
    ],
)
def test_it_prints_the_plain_form(text: str, printed: str) -> None:
    """Numbers lose their leading zeros, and Sunday stays 7."""
    assert str(parse_schedule(text)) == printed


def test_a_row_with_a_year_can_be_a_single_moment() -> None:
    """2010/10/20 11:10 comes once."""
    schedule = parse_schedule("2010/10/20 11:10 (*)", zone="Asia/Tokyo")
    assert next_moments(schedule, at("2000-01-01"), 2) == [at("2010-10-20 11:10+09:00")]


def test_rows_are_united() -> None:
    """Two rows that match the same minute are one moment."""
    schedule = parse_schedule(["*/*/* 9:0 (1)", "*/*/1 9:0 (*)"])
    assert count_until(schedule, at("2026-06-01"), at("2026-06-02"))[0] == 1
    assert str(schedule) == "*/*/* 9:0 (1); */*/1 9:0 (*)"


@pytest.mark.parametrize("text", REFUSED_BY_KOYOMI)
def test_it_refuses_what_koyomi_refuses(text: str) -> None:
    """No lists, steps, names or second blanks within a row."""
    with pytest.raises(InvalidSchedule):
        parse_schedule(text)


@pytest.mark.parametrize(("text", "field"), NONSENSE)
def test_it_refuses_what_never_matches(text: str, field: str) -> None:
    """Koyomi takes these and never runs them."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.field == field
