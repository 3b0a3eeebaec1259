"""Calendar expressions, with systemd's own program as a second opinion."""

import re
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tokimori.clock import from_datetime, to_datetime
from tokimori.errors import InvalidInput
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Gap
from tokimori.translators.on_calendar import read_calendar

TIMES = 4
ZONES = ("UTC", "utc", "Europe/Berlin", "America/New_York", "")
DAYS = st.sampled_from(("Mon", "tue", "WED", "Thu", "Fri", "Sat", "Sun", "monday", "Friday"))
WORDS = st.sampled_from(
    (
        *("minutely", "Hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "semi-annually", "YEARLY"),
        *("annually", "anually", "biannually", "bi-annually", "midnight", "fortnightly", "@1893456000", "@0", "@"),
    )
)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """One part of a date or time, right or wrong, and lists of several; none is `5..5`, refused for seconds alone."""
    number, step = st.integers(low, high), st.integers(0, 9)
    pair = st.tuples(number, number).filter(lambda each: each[0] != each[1])
    one = st.one_of(
        number.map(str),
        number.map(lambda each: f"{each:02}"),
        pair.map(lambda each: f"{each[0]}..{each[1]}"),
        st.tuples(number, step).map(lambda each: f"{each[0]}/{each[1]}"),
        st.tuples(number, number, step).map(lambda each: f"{min(each[:2])}..{max(each[:2])}/{each[2]}"),
    )
    return st.one_of(st.just("*"), one, one, st.lists(one, min_size=2, max_size=3).map(",".join), st.just("*/2"))


def seconds() -> st.SearchStrategy[str]:
    """The seconds, with parts of them that are none, or are some."""
    part = st.sampled_from(("", "", ".0", ".000000", ".0000001", ".5"))
    one = st.tuples(field(0, 59).filter(lambda each: each[-1:].isdigit()), part).map("".join)
    return st.one_of(st.just(""), field(0, 59).map(lambda each: f":{each}"), one.map(lambda each: f":{each}"))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """A calendar expression, right or wrong, with a zone."""
    if draw(st.integers(0, 19)) == 0:
        return f"{draw(WORDS)} {draw(st.sampled_from(ZONES))}".strip()
    pairs = st.tuples(DAYS, st.sampled_from((",", "..", "-", ",,")), DAYS)
    weekdays = st.one_of(st.just(""), DAYS, DAYS.map(lambda each: f"{each},"), pairs.map("".join))
    years = st.one_of(
        st.sampled_from(("*-", "", "2026..2030-", "28-", "99-", "2200-")), field(2026, 2040).map("{}-".format)
    )
    ends = st.one_of(field(1, 28).filter(lambda each: "," not in each), field(1, 19))  # 252 refuses `~1,28`
    day = st.one_of(field(1, 31).map("-{}".format), ends.map("~{}".format))
    date = st.one_of(st.just(""), st.just("*-*"), st.tuples(years, field(1, 12), day).map("".join))
    time = st.one_of(st.just(""), st.tuples(field(0, 23), st.just(":"), field(0, 59), seconds()).map("".join))
    return " ".join(filter(None, (draw(part) for part in (weekdays, date, time, st.sampled_from(ZONES)))))


def theirs(expression: str, base: datetime) -> list[datetime] | None:
    """The next moments as systemd says them; None where it refuses the expression."""
    found = asked_of_systemd(expression, base)
    return found if found is None else asked_of_systemd(with_ends(expression), base)


def with_ends(expression: str) -> str:
    """The same, with the end of each step of a time: systemd 252 forgets the first moment of a month without it."""
    return " ".join(
        ":".join(re.sub(r"(?<![.\d])(\d+)/", rf"\1..{59 if place else 23}/", part) for place, part in enumerate(parts))
        if len(parts := word.split(":")) > 1
        else word
        for word in expression.split(" ")
    )


def asked_of_systemd(expression: str, base: datetime) -> list[datetime] | None:
    """What its program says."""
    words = ["calendar", f"--iterations={TIMES}", f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC", expression]
    environment = {"TZ": "UTC", "LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["systemd-analyze", *words], check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    assume("Resource deadlock avoided" not in done.stderr)  # systemd 252 on `*-1/8-* 0:0 Europe/Berlin`
    if done.returncode:
        return None
    found = re.findall(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", done.stdout.partition("Next elapse")[2])
    return [datetime.fromisoformat(f"{text}+00:00") for text in found]


def ours(expression: str, base: datetime) -> list[datetime] | None:
    """The next moments of our schedule; None where we refuse the expression, or where there are none."""
    try:
        calendar = read_calendar(expression)
        text = calendar.cron if calendar.left_out is None else f"{calendar.cron} except {calendar.left_out}"
        schedule = parse_schedule(text, zone=calendar.zone or "UTC", gap=Gap.SKIP)
    except InvalidInput:
        return None
    found, moment = list[datetime](), from_datetime(base)
    while len(found) < TIMES and (upcoming := schedule.next_after(moment)) is not None:
        moment = upcoming
        found.append(to_datetime(moment))
    return found


def test_the_end_of_a_step_is_written_out() -> None:
    """In times alone, each with its own end; a step that has one keeps it."""
    assert with_ends("Mon *-1/2-3/4 0/5,3..7/2:10/9:*/2 UTC") == "Mon *-1/2-3/4 0..23/5,3..7/2:10..59/9:*/2 UTC"


@pytest.mark.parametrize("text", ["0:0:1.5", "0:0:0/0.5", "0:0:0..1/0.25"])
def test_parts_of_a_second_are_refused(text: str) -> None:
    """Schedules here name whole seconds, and what is allowed is told."""
    with pytest.raises(InvalidInput, match=re.escape(text)) as caught:
        read_calendar(text)
    assert "whole seconds" in str(caught.value.allowed)


@pytest.mark.prove
@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: apt-get install systemd"
)
@settings(max_examples=examples(500))
@given(expressions(), st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)))
@example("0/5:0 UTC", datetime(2026, 1, 31, 5))
@example("Mon *-05~07/1", datetime(2026, 1, 31, 5))
@example("mon,FRI *-*-* 09:00:00.0", datetime(2026, 1, 31, 5))
@example("*-*-* 03:00 utc", datetime(2026, 1, 31, 5))
@example("*-*~2..10/3", datetime(2026, 1, 31, 5))
@example("*-2-29,30", datetime(2026, 1, 31, 5))
def test_it_names_the_moments_that_systemd_names(expression: str, base: datetime) -> None:
    """What systemd refuses is refused, and the next moments are the same, where clocks change, too."""
    assume(re.search(r"\.[0-9]*[1-9]", expression.replace(".0000001", "")) is None)  # parts of a second are refused
    when = base.replace(microsecond=0, tzinfo=UTC)
    assert (ours(expression, when) or None) == (theirs(expression, when) or None)
