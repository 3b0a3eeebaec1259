"""The long form of the fuzz of texts: a million questions, each about a text and a moment, in some two minutes."""

import random

import pytest

from tests.unit.schedules.hostile import Examination, case

ASKED, PARTS = 1_000_000, 8


@pytest.mark.prove
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_text_is_refused_or_answered_in_time(part: int) -> None:
    """Cron lines, unions, exclusions, intervals and calendars, from the year 1 to 9999: answers agree, and in time."""
    asked, n = Examination(), 0
    while asked.asked < ASKED // PARTS:
        rng = random.Random(f"prove {part} {n}")
        asked.check(case(rng), rng)
        n += 1
    asked.assert_fast()
