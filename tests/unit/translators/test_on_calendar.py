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
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
DAYS = st.sampled_from(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "monday"))


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """One part of a date or time, right or wrong; none is `5..5`, which systemd takes but for seconds."""
    number, step = st.integers(low, high), st.integers(1, 9)
    pair = st.tuples(number, number).filter(lambda each: each[0] != each[1])
    return st.one_of(
        st.just("*"),
        number.map(str),
        pair.map(lambda each: f"{each[0]}..{each[1]}"),
        st.tuples(number, number).map(lambda each: f"{each[0]},{each[1]}"),
        st.tuples(number, step).map(lambda each: f"{each[0]}/{each[1]}"),
        st.tuples(number, number, step).map(lambda each: f"{min(each[:2])}..{max(each[:2])}/{each[2]}"),
        step.map(lambda each: f"*/{each}"),
    )


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """A calendar expression, right or wrong, with a zone."""
    weekdays = st.one_of(st.just(""), DAYS, st.tuples(DAYS, DAYS).map(",".join), st.tuples(DAYS, DAYS).map("..".join))
    year = st.sampled_from(("*-", "", "2026..2030-", "2028-"))
    day = st.one_of(field(1, 31).map(lambda each: f"-{each}"), st.integers(1, 10).map(lambda each: f"~{each}"))
    date = st.one_of(st.just(""), st.tuples(year, field(1, 12), day).map("".join))
    second = st.one_of(st.just(""), field(0, 59).map(lambda each: f":{each}"))
    time = st.tuples(field(0, 23), st.just(":"), field(0, 59), second).map("".join)
    return " ".join(draw(part) for part in (weekdays, date, time, st.sampled_from(ZONES))).strip()


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


@pytest.mark.prove
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@settings(max_examples=examples(300))
@given(expressions(), st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)))
@example("0/5:0 UTC", datetime(2026, 1, 31, 5))
def test_it_names_the_moments_that_systemd_names(expression: str, base: datetime) -> None:
    """What systemd refuses is refused, and the next moments are the same, where clocks change, too."""
    when = base.replace(microsecond=0, tzinfo=UTC)
    assert (ours(expression, when) or None) == (theirs(expression, when) or None)
