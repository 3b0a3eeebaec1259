"""What a job's definition means."""

import pytest

from tests.unit.examples import NEW_YEAR, a_definition
from tokimori.errors import InvalidSchedule
from tokimori.model.checks import check_definition
from tokimori.model.job import kills_on_lost_lease, limit_of, most_active, schedule_of
from tokimori.model.policies import OnLostLease
from tokimori.schedules.schedule import OnDemand


@pytest.mark.parametrize(
    ("schedule", "max_running", "limit"),
    [("* * * * *", None, 1), (None, None, 0), ("* * * * *", 0, 0), (None, 3, 3), ("* * * * *", 3, 3)],
)
def test_how_many_may_run(schedule: str | None, max_running: int | None, limit: int) -> None:
    """By default a scheduled job runs one at a time and any other as often as it is asked; 0 says unlimited."""
    assert limit_of(a_definition(schedule=schedule, max_running=max_running)) == limit


@pytest.mark.parametrize(
    ("max_running", "policy", "kills"),
    [
        (None, None, False),
        (0, None, False),
        (1, None, True),
        (1, OnLostLease.CONTINUE, False),
        (None, OnLostLease.KILL, True),
        (0, OnLostLease.KILL, True),
    ],
)
def test_what_a_lost_lease_ends(max_running: int | None, policy: OnLostLease | None, kills: bool) -> None:
    """Processes are ended where a limit is stated, or where the job says so (DESIGN §3)."""
    assert kills_on_lost_lease(a_definition(max_running=max_running, on_lost_lease=policy)) is kills


@pytest.mark.parametrize(
    ("terms", "most"),
    [({}, None), ({"max_waiting": 0}, 1), ({"max_running": 5, "max_waiting": 5}, 10), ({"max_running": 5}, None)],
)
def test_how_many_may_be_active(terms: dict[str, int], most: int | None) -> None:
    """Those that may run and those that may wait beside them; any number where nobody says how many may wait."""
    assert check_definition(a_definition(**terms))
    assert most_active(a_definition(**terms)) == most


def test_no_schedule_is_on_demand() -> None:
    """A definition without a schedule names no moments."""
    assert schedule_of(a_definition(schedule=None), NEW_YEAR) == OnDemand()


def test_the_id_spreads_jobs() -> None:
    """`H` stands for another moment in each job, and always for the same one in the same job."""
    definition = a_definition(schedule="H H * * *")
    first, again, other = (schedule_of(definition, NEW_YEAR, name).next_after(NEW_YEAR) for name in ("a", "a", "b"))
    assert first == again != other


def test_an_empty_text_is_no_schedule() -> None:
    """Only a missing schedule means on demand; an empty one is somebody's mistake."""
    with pytest.raises(InvalidSchedule):
        schedule_of(a_definition(schedule=""), NEW_YEAR)
