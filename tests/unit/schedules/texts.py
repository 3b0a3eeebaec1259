"""Schedule texts of every notation, for laws that hold for all of them."""

import random

from hypothesis import assume
from hypothesis import strategies as st

from tests.unit.schedules import walk
from tokimori.clock import DAY, Moment, format_moment, parse_moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule

Mode = tuple[Gap, Fold]

zones = st.sampled_from(["UTC", *walk.ODD_ZONES])
anchors = st.integers(0, 2_000_000_000_000_000).map(Moment)
FIRST, LAST = parse_moment("0001-01-01T00:00:00Z"), parse_moment("9999-12-31T23:59:59.999999Z")
edges = st.one_of(st.integers(FIRST, FIRST + 40 * DAY), st.integers(LAST - 40 * DAY, LAST)).map(Moment)
"""The first and the last days of time."""
modes = st.sampled_from([(gap, fold) for gap in Gap for fold in Fold])

_seeds = st.integers(0, 2**32)
_few = st.sampled_from([False, False, False, True])
_stamps = st.builds(
    lambda moment, offset: format_moment(moment).removesuffix("Z") + offset,
    anchors,
    st.sampled_from(["", "Z", "+02:00", "-03:30"]),
)
_periods = st.sampled_from(
    [
        *("PT10S", "PT0.25S", "PT36H", "P1D", "P2W", "P1M", "P3M", "P1Y", "P1M15D", "P1DT12H", "P1Y2M10DT2H30M15S"),
        *("PT90M", "P45D", "P18M", "PT1M1S"),
    ]
)
_repeats = st.sampled_from(["R", "R0", "R1", "R5", "R1000"])
_any_crons = st.builds(lambda seed, seconds: walk.random_expression(random.Random(seed), seconds=seconds), _seeds, _few)


def parses(text: str) -> bool:
    try:
        parse_schedule(text)
    except InvalidSchedule:
        return False
    return True


crons = _any_crons.filter(parses)
single = st.one_of(
    crons,
    st.builds(lambda *parts: "/".join(parts), _repeats, _stamps, _periods),
    st.builds(lambda *parts: "/".join(parts), _repeats, _periods, _stamps),
    st.builds(
        "every {} {}s".format, st.integers(1, 1000), st.sampled_from(["second", "minute", "hour", "day", "week"])
    ),
    st.builds("at {}".format, _stamps),
    st.sampled_from(["*/*/* 9:30 (*)", "2030/*/1 *:0 (7)", "on friday at 10:00PM", "every day at 02:30", "@every 90s"]),
    st.sampled_from(["@hourly", "@yearly", "every minute"]),
)
# What is combined is counted by walking where an interval meets a cron expression: no intervals of seconds there.
coarse = st.one_of(
    crons,
    st.builds("R/{}/{}".format, _stamps, st.sampled_from(["PT36H", "P1D", "P1M", "P1DT12H"])),
    st.builds("every {} hours".format, st.integers(1, 100)),
    st.sampled_from(["*/*/* 9:30 (*)", "on friday at 10:00PM", "@hourly", "at 2030-01-01T00:00:00"]),
)
texts = st.one_of(
    single,
    single,
    st.sampled_from(["@reboot", "on demand"]),
    st.lists(coarse, min_size=2, max_size=3).map("; ".join),
    st.builds("{} except {}".format, coarse, crons).filter(parses),
)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """A schedule of any notation, in any zone, under any rules."""
    gap, fold = draw(modes)
    text = draw(texts)
    try:
        return parse_schedule(text, zone=draw(zones), anchor=draw(anchors), gap=gap, fold=fold)
    except InvalidSchedule:
        assume(condition=False)
        raise
