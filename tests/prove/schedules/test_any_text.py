"""The long form of the fuzz of texts: 150,000 times asked about one.

A million takes an hour of the processor: too long for one proof among others.
"""

import random

import pytest

from tests.unit.schedules.hostile import Examination, case

ASKED, PARTS = 150_000, 6


@pytest.mark.prove
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_text_is_refused_or_answered_in_time(part: int) -> None:
    """Cron lines, unions, exclusions, intervals and calendars, from the year 1 to 9999: answers agree, and in time."""
    asked, n = Examination(), 0
    while asked.cases < ASKED // PARTS:
        rng = random.Random(f"prove {part} {n}")
        asked.check(case(rng), rng)
        n += 1
    asked.assert_fast()
