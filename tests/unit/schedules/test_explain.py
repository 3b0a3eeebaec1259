"""Explanations: moments and warnings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.schedules.texts import anchors, edges, modes, texts, zones
from tokimori.clock import Moment, format_moment, parse_moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.business_days import Shift
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.explain import MOST_JUMPS, Explanation, explain
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, next_moments

NOW = parse_moment("2026-11-21T12:00:00Z")
GAP, FOLD = "02:30 does not exist on 2027-03-28", "02:30 comes twice on 2027-10-31"
EITHER = "day of month and day of week are both restricted: it runs on days that match either, as in cron"
BOTH = "{} begins with *, so a day must match both day of month and day of week, as in Vixie's cron"
ADDED = "{} counts from the moment at which the job is added; shown as if that were now"
FAR = "the next moment is more than a year away"
EVERY_MINUTE = "with * as the minute it runs every minute of these hours; write 0 to run once an hour"
EXACT = "{} hours are exact: when clocks jump, the time of day changes; with days (every day, P1D) it stays"


def explained(text: str, zone: str = "UTC", n: int = 3, gap: Gap = Gap.SHIFT, fold: Fold = Fold.FIRST) -> Explanation:
    return explain(text, zone=zone, after=NOW, n=n, gap=gap, fold=fold)


def test_an_explanation_has_the_next_moments() -> None:
    """They are those after the moment that was asked about; the text stays as typed."""
    found = explained("0  9 * * MON-FRI", "Europe/Paris", n=2)
    assert [format_moment(moment) for moment in found.moments] == ["2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z"]
    assert (found.text, found.time_zone, found.warnings) == ("0  9 * * MON-FRI", "Europe/Paris", ())
    assert found.sentence == "At 09:00, Monday through Friday."


WARNINGS: dict[str, tuple[str, ...]] = {
    "*/15 9-17 * * 1-5": (),
    "0 18 ? * 1": ("weekday 1: Sunday is 0 or 7, in Quartz and AWS, which write ?, 1; names are the same",),
    "0 18 ? * MON": (),
    "0 0 L * *": (),
    "0 0 13 * 5": (EITHER,),
    "0 0 13 * */2": (BOTH.format("*/2"),),
    "0 0 */2 * 5": ("*/2 starts again with each month: day 31 is followed by day 1", BOTH.format("*/2")),
    "0 0 */1 * 5": (),
    "*/7 * * * *": (
        "*/7 starts again with each hour, and 7 does not divide 60: after minute 56 the next is 4 minutes later",
    ),
    "0 */23 * * *": (
        "*/23 starts again with each day, and 23 does not divide 24: after hour 23 the next is 1 hour later",
    ),
    "* 9 * * *": (EVERY_MINUTE,),
    "15 30 9 * * *": ("with more than 5 fields the first one means seconds: it runs at second 15",),
    "*/10 * * * * *": ("with more than 5 fields the first one means seconds: it runs at 6 seconds of a minute",),
    "0 30 9 * * *": (),
    "0 0 29 2 *": ("29 February comes only in leap years", FAR),
    "0 0 31 * *": (
        "it does not run in February, April, June, September or November, which have no day 31;"
        " L is the last day of any month",
    ),
    "0 0 29 * *": ("it does not run in February, which has no day 29; L is the last day of any month",),
    "0 0 * * fri#5": ("not every month has a fifth Friday",),
    "0 0 30W * *": ("not every month has a day 30",),
    "0 0 9 1 1 * 2027": ("it ends after this moment",),
    "0 0 9 1-2 1 * 2027": ("it ends after these 2 moments",),
    "0 0 9 1 1 * 2026": ("it never runs again: its last moment is past",),
    "2030/*/1 9:30 (7)": (EITHER, FAR),
    "every 10 seconds": (ADDED.format("every 10 seconds"),),
    "every 24 hours": (ADDED.format("every 24 hours"),),
    "R5/2027-01-31T00:00:00Z/P1M": (
        "R5 is 5 repeats after the first: 6 moments in all",
        "in months without a day 31 it runs on the month's last day",
    ),
    "R/2027-01-01T00:00:00/PT24H": (),
    "at 2027-01-01T00:00:00": (),
    "at 2017-01-01T00:00:00": ("it never runs again: its last moment is past",),
    "0 0 13 * 5; every hour": (EITHER, ADDED.format("every hour")),
    "0 0 13 * 5; 0 1 13 * 5": (EITHER,),
    "0 0 13 * 5 except * 9 * * *": (EITHER,),
    "H 9 * * *": ("H stands for a number that depends on the job's id; the moments shown are only an example",),
    "@hourly": (),
    "@reboot": (),
    "on demand": (),
}


@pytest.mark.parametrize("text", WARNINGS)
def test_what_may_surprise_is_said(text: str) -> None:
    """And nothing else is."""
    assert explained(text).warnings == WARNINGS[text]


JUMPS: dict[tuple[str, Gap, Fold], tuple[str, ...]] = {
    ("30 2 * * *", Gap.SHIFT, Fold.FIRST): (f"{GAP}; runs at 03:00", f"{FOLD}; runs once, the first time"),
    ("30 2 * * *", Gap.SKIP, Fold.BOTH): (f"{GAP}; nothing runs then", f"{FOLD}; runs both times"),
    ("0,15,30 2 * * *", Gap.SHIFT, Fold.FIRST): (
        "02:00, 02:15 and 02:30 do not exist on 2027-03-28; runs once at 03:00",
        "02:00, 02:15 and 02:30 come twice on 2027-10-31; runs once, the first time",
    ),
    ("0 1,2,3 * * *", Gap.SHIFT, Fold.FIRST): (
        "02:00 does not exist on 2027-03-28; runs once at 03:00",
        "02:00 comes twice on 2027-10-31; runs once, the first time",
    ),
    ("*/10 2 * * *", Gap.SHIFT, Fold.FIRST): (
        "02:00 to 02:50 do not exist on 2027-03-28; nothing runs then",
        "02:00 to 02:50 come twice on 2027-10-31; runs both times",
    ),
    ("*/10 * * * *", Gap.SHIFT, Fold.FIRST): (),
    ("30 2 * * *", Gap.LATER, Fold.BOTH): (f"{GAP}; runs at 03:30", f"{FOLD}; runs both times"),
    ("30 2,3 * * *", Gap.LATER, Fold.FIRST): (f"{GAP}; runs once at 03:30", f"{FOLD}; runs once, the first time"),
    ("*/10 2 * * *", Gap.LATER, Fold.FIRST): (
        "02:00 to 02:50 do not exist on 2027-03-28; runs at 03:00 to 03:50",
        "02:00 to 02:50 come twice on 2027-10-31; runs both times",
    ),
    ("*/10 * * * *", Gap.LATER, Fold.BOTH): (),
    ("30 * * * *", Gap.SKIP, Fold.BOTH): (),
    ("30 2 * * 1-5", Gap.SHIFT, Fold.FIRST): (),
    ("on sunday at 02:30", Gap.SHIFT, Fold.FIRST): (f"{GAP}; runs at 03:00", f"{FOLD}; runs once, the first time"),
    ("R/2026-12-01T02:30:00/P1D", Gap.SHIFT, Fold.FIRST): (
        f"{GAP}; runs at 03:00",
        f"{FOLD}; runs once, the first time",
    ),
    ("R/2026-12-01T02:30:00Z/P1D", Gap.SHIFT, Fold.FIRST): (),
    ("R/2026-12-01T02:30:00/PT24H", Gap.SHIFT, Fold.FIRST): (EXACT.format(24),),
    ("every 48 hours", Gap.SHIFT, Fold.FIRST): (ADDED.format("every 48 hours"), EXACT.format(48)),
    ("at 2027-03-28T02:30:00", Gap.SHIFT, Fold.FIRST): (f"{GAP}; runs at 03:00",),
    ("30 2 * * *; 30 2 * * 0", Gap.SHIFT, Fold.FIRST): (f"{GAP}; runs at 03:00", f"{FOLD}; runs once, the first time"),
    ("30 2 * * *; 45 2 * * *", Gap.SHIFT, Fold.FIRST): (
        f"{GAP}; runs at 03:00",
        "02:45 does not exist on 2027-03-28; runs at 03:00",
        f"{FOLD}; runs once, the first time",
        "02:45 comes twice on 2027-10-31; runs once, the first time",
    ),
    ("30 2 * * * except R/2027-03-01T02:30:00Z/P1D", Gap.SHIFT, Fold.FIRST): (
        f"{GAP}; runs at 03:00",
        f"{FOLD}; runs once, the first time",
    ),
    ("30 2 * * * except * * * 3 *", Gap.SHIFT, Fold.FIRST): (f"{FOLD}; runs once, the first time",),
}


@pytest.mark.parametrize(("text", "gap", "fold"), JUMPS)
def test_jumps_of_the_clocks_are_told(text: str, gap: Gap, fold: Fold) -> None:
    """Those of the next year at which a time is skipped or shown twice, and what the rules make of it."""
    assert explained(text, "Europe/Paris", gap=gap, fold=fold).warnings == JUMPS[text, gap, fold]


def test_a_whole_day_may_be_skipped() -> None:
    """In Samoa in 2011: the moment after it has another date, which is told."""
    found = explain("0 9 * * *", zone="Pacific/Apia", after=parse_moment("2011-12-29T00:00:00Z"), n=3)
    assert found.warnings == ("09:00 does not exist on 2011-12-30; runs at 00:00 on 2011-12-31",)
    late = explain("0 9 30 12 *", zone="Pacific/Apia", after=parse_moment("2011-12-29T00:00:00Z"), n=1, gap=Gap.LATER)
    assert late.warnings == ("09:00 does not exist on 2011-12-30; runs at 09:00 on 2011-12-31",)


def test_the_horizon_is_that_of_the_moments() -> None:
    """Where the moments shown go on for longer than a year, jumps are told as far; many are counted."""
    assert explained("30 2 28 3 *", "Europe/Paris", n=12).warnings == (
        f"{GAP}; runs at 03:00",
        "02:30 does not exist on 2032-03-28; runs at 03:00",
        "02:30 does not exist on 2038-03-28; runs at 03:00",
    )
    warnings = explained("30 2 * * 0", "Europe/Paris", n=400).warnings
    assert len(warnings) == MOST_JUMPS + 1
    assert "more clock changes" in warnings[-1]


def test_a_bad_text_is_refused_as_everywhere() -> None:
    """The error is that of reading a schedule."""
    with pytest.raises(InvalidSchedule) as caught:
        explained("61 * * * *")
    assert caught.value.field == "minute"


def test_days_off_are_explained_too() -> None:
    """Their moments, the sentence and the warnings of what stands beneath."""
    off = parse_days_off(["2026-11-23", "2027-10-31"], ["sat"])
    found = explain("30 2 * * *", zone="Europe/Paris", after=NOW, n=2, days_off=off, shift=Shift.NEXT)
    assert [format_moment(moment) for moment in found.moments] == ["2026-11-22T01:30:00Z", "2026-11-24T01:30:00Z"]
    assert found.sentence == "At 02:30, every day; on days off, at the same time on the next business day."
    assert found.warnings == (f"{GAP}; runs at 03:00",)


@given(texts, zones, st.one_of(anchors, anchors, edges), modes)
def test_moments_are_those_of_the_schedule(text: str, zone: str, after: Moment, mode: tuple[Gap, Fold]) -> None:
    """Whatever can be read can be explained, and is explained by the schedule itself."""
    gap, fold = mode
    try:
        schedule = parse_schedule(text, zone=zone, anchor=after, gap=gap, fold=fold)
    except InvalidSchedule:
        return
    found = explain(text, zone=zone, after=after, n=2, gap=gap, fold=fold)
    assert list(found.moments) == next_moments(schedule, after, 2)
    assert len(found.warnings) == len(set(found.warnings))
