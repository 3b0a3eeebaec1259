"""cronsim as a second opinion, where `reference/libraries.md` §1 says that it is right.

That is in zones that change by a whole hour, and not at midnight. Left out besides: `2-2/5`, which cronsim reads as
`2/5`, and starts within a fold, where it can answer with a time before the start.
"""

import random
import re
from datetime import datetime

import pytest
from cronsim import CronSim, CronSimError

from tests.unit.schedules import walk
from tokimori.clock import DAY, HOUR, SECOND, Moment, from_datetime
from tokimori.errors import InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments
from tokimori.schedules.zones import zone_info

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Europe/London", "Australia/Sydney", "Asia/Tokyo"]


_EQUAL_RANGE = re.compile(r"\b(\d+)-\1/")


def expression(rng: random.Random) -> str:
    """One that both read, and read alike."""
    while True:
        text = walk.random_expression(rng, seconds=rng.random() < 0.2)
        try:
            CronSim(text.replace("?", "*"), datetime(2026, 1, 1))
            parse_schedule(text)
        except (CronSimError, InvalidSchedule):
            continue
        if not _EQUAL_RANGE.search(text):
            return text.replace("?", "*")


@pytest.mark.parametrize("zone", ZONES)
def test_cronsim_agrees(zone: str) -> None:
    """150 random expressions have the same 12 next moments, from anywhere in 30 years."""
    rng = random.Random(zone)
    for _ in range(150):
        text = expression(rng)
        start = Moment(rng.randrange(10_000, 20_000) * DAY + 9 * HOUR)
        opinion = CronSim(text, datetime.fromtimestamp(start // SECOND, zone_info(zone)))
        expected = [from_datetime(next(opinion)) for _ in range(12)]
        assert next_moments(parse_schedule(text, zone=zone), start, 12) == expected, (text, zone, start)
