"""The long form of the cron walk: 100,000 random (expression, zone, start) around transitions."""

import random

import pytest

from tests.unit.schedules import walk
from tests.unit.schedules.test_cron_walk import check_transition
from tests.unit.schedules.test_zones import ALL_ZONES


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("zone", walk.ODD_ZONES)
def test_it_equals_the_walk_around_the_transitions_of_odd_zones(zone: str) -> None:
    """2,500 expressions for each of 40 zones, within 4 days of transitions since 1973, have the walk's moments."""
    rng = random.Random(f"prove {zone}")
    transitions = walk.transitions(zone)
    for _ in range(50):
        check_transition(zone, rng.choice(transitions), rng, days=4, expressions=50)


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(8))
def test_it_equals_the_walk_in_every_zone(part: int) -> None:
    """20 expressions within 4 days of a transition of each zone of tzdata that ever had one since 1973."""
    for zone in ALL_ZONES[part::8]:
        rng = random.Random(f"every {zone}")
        if transitions := walk.transitions(zone):
            check_transition(zone, rng.choice(transitions), rng, days=4, expressions=20)
