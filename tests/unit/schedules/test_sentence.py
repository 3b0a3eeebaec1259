"""Schedules as sentences."""

import pytest
from hypothesis import given

from tests.unit.schedules.texts import schedules
from tokimori.clock import Moment
from tokimori.errors import Bug
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.sentence import sentence

SENTENCES = {
    "* * * * *": "Every minute.",
    "*/15 * * * *": "Every 15 minutes.",
    "0,30 * * * *": "Every 30 minutes.",
    "*/7 * * * *": "At minutes 0, 7, … 56 of every hour.",
    "30 * * * *": "At minute 30 of every hour.",
    "30 2 * * *": "At 02:30, every day.",
    "0 9 * * 1-5": "At 09:00, Monday through Friday.",
    "0 9 * * mon-wed,fri": "At 09:00, on Monday through Wednesday and Friday.",
    "17 3 * 6-8 sat,sun": "At 03:17, on Saturday and Sunday, in June through August.",
    "* 9 * * *": "Every minute from 09:00 to 09:59.",
    "*/10 9-17 * * mon-fri": "Every 10 minutes from 09:00 to 17:59, Monday through Friday.",
    "*/10 9,11,17 * * *": "Every 10 minutes of the hours 9, 11 and 17.",
    "0 */2 * * *": "Every 2 hours, at minute 0.",
    "5 0,6,12,18 * * 0": "At 00:05, 06:05, 12:05 and 18:05, on Sunday.",
    "0 8 1,15 3-5,12 *": "At 08:00, on days 1 and 15 of the month, in March through May and December.",
    "0 0 L * *": "At 00:00, on the last day of the month.",
    "0 0 L-1 * *": "At 00:00, on the day 1 day before the last of the month.",
    "0 0 1W,LW * *": (
        "At 00:00, on the working day (Monday to Friday) nearest to day 1 of the month"
        " and the last working day (Monday to Friday) of the month."
    ),
    "0 0 * * fri#2": "At 00:00, on the second Friday of the month.",
    "0 0 * * 5L": "At 00:00, on the last Friday of the month.",
    "0 0 13 * 5": "At 00:00, on day 13 of the month or on Friday.",
    "0 0 */2 * 5": "At 00:00, on days 1, 3, … 31 of the month, if that is Friday.",
    "15 30 9 * * *": "At 09:30:15, every day.",
    "*/10 * * * * *": "Every 10 seconds.",
    "15 * * * * *": "At second 15 of every minute.",
    "*/10 */5 * * * *": "Every 10 seconds of minutes 0, 5, … 55 of every hour.",
    "*/20 0 9-17 * * *": "Every 20 seconds of minute 0 from 09:00 to 17:59.",
    "0 0 9 1 1 * 2030-2032": "At 09:00, on day 1 of the month, in January, in 2030 to 2032.",
    "@yearly": "At 00:00, on day 1 of the month, in January.",
    "2030/*/1 9:30 (7)": "At 09:30, on day 1 of the month or on Sunday, in 2030.",
    "on friday at 10:00PM": "At 22:00, on Friday.",
    "every day at 09:00": "At 09:00, every day.",
    "every 10 seconds": "Every 10 seconds, counted from when the job is added.",
    "every day": "Every day, counted from when the job is added.",
    "R5/2030-01-31T00:00:00Z/P1M": "Every month, from 2030-01-31T00:00:00Z on, 6 times in all.",
    "R0/2030-01-01T00:00:00/P1D": "Once, at 2030-01-01T00:00:00.",
    "R/2030-01-01T00:00:00/P1Y2M10DT2H30M0.5S": (
        "Every 1 year, 2 months, 10 days, 2 hours, 30 minutes and 0.5 seconds, from 2030-01-01T00:00:00 on."
    ),
    "R/2030-01-01T00:00:00/2030-01-02T12:00:00": "Every 36 hours, from 2030-01-01T00:00:00 on.",
    "R/P1D/2030-01-01T00:00:00": "Every day, up to 2030-01-01T00:00:00.",
    "at 2030-01-01T00:00:00": "Once, at 2030-01-01T00:00:00.",
    "0 9 * * 1-5; 0 12 * * 0": "At 09:00, Monday through Friday; and at 12:00, on Sunday.",
    "0 9 * * * except 0 9 25 12 *": "At 09:00, every day; except at 09:00, on day 25 of the month, in December.",
    "@reboot": "Once after each start of a host that runs a node.",
    "on demand": "Never by itself, only when somebody asks for it.",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_a_schedule_is_a_sentence(text: str) -> None:
    """Each notation says in English what it means."""
    assert sentence(parse_schedule(text)) == SENTENCES[text]


@given(schedules())
def test_every_notation_has_a_sentence(schedule: Schedule) -> None:
    """Whatever the door reads can be said: one line that begins with a capital and ends with a full stop."""
    said = sentence(schedule)
    assert said[0].isupper()
    assert said.endswith(".")
    assert said.isprintable()


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (None, "At 09:00, every day; not on days off."),
        (Shift.NEXT, "At 09:00, every day; on days off, at the same time on the next business day."),
    ],
)
def test_days_off_are_said(shift: Shift | None, said: str) -> None:
    """And what becomes of moments on them."""
    assert sentence(on_business_days(parse_schedule("0 9 * * *"), DaysOff(), shift, "UTC")) == said


def test_a_notation_without_a_sentence_is_a_bug() -> None:
    """Whoever adds one hears of it."""

    class New:
        def next_after(self, moment: Moment) -> Moment | None:
            return moment

        def last_before(self, moment: Moment) -> Moment | None:
            return moment

    with pytest.raises(Bug, match="New"):
        sentence(New())
