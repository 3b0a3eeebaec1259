"""Schedule texts of every notation, for laws that hold for all of them."""

import random

from hypothesis import assume
from hypothesis import strategies as st

from tests.unit.schedules import walk
from tokimori.clock import Moment, format_moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule

Mode = tuple[Gap, Fold]

zones = st.sampled_from(["UTC", *walk.ODD_ZONES])
anchors = st.integers(0, 2_000_000_000_000_000).map(Moment)
modes = st.sampled_from([(gap, fold) for gap in Gap for fold in Fold])

_seeds = st.integers(0, 2**32)
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
_crons = st.builds(lambda seed: walk.random_expression(random.Random(seed)), _seeds)
_fine_crons = st.builds(lambda seed: walk.random_expression(random.Random(seed), seconds=True), _seeds)


def _parses(text: str) -> bool:
    try:
        parse_schedule(text)
    except InvalidSchedule:
        return False
    return True


texts = st.one_of(
    (_crons | _fine_crons).filter(_parses),
    st.builds(lambda *parts: "/".join(parts), _repeats, _stamps, _periods),
    st.builds(lambda *parts: "/".join(parts), _repeats, _periods, _stamps),
    st.builds(
        "every {} {}".format, st.integers(1, 1000), st.sampled_from(["seconds", "minutes", "hours", "days", "weeks"])
    ),
    st.builds("at {}".format, _stamps),
    st.sampled_from(["@hourly", "@yearly", "@reboot", "on demand", "every minute"]),
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
