"""From an occurrence to the moment at which its run is due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_definition, a_job, seconds
from tokimori.clock import DAY, SECOND, Moment
from tokimori.model.decide import decidable, due_of, look_at, spread
from tokimori.model.ids import JobId

NOMINALS = st.integers(0, 2**52).map(Moment)


@given(st.text(min_size=1, max_size=20), NOMINALS, st.integers(0, 10 * DAY))
def test_a_spread_lies_within_its_width(job_id: str, nominal: Moment, width: int) -> None:
    """It is at least 0, below the width, and the same whenever and wherever it is asked for."""
    found = spread(JobId(job_id), nominal, width)
    assert found == 0 if width == 0 else 0 <= found < width
    assert spread(JobId(job_id), nominal, width) == found


def test_a_spread_is_the_one_of_every_release() -> None:
    """Nodes of two versions agree, so that these numbers never change."""
    assert [spread(JobId("job"), seconds(n), 60 * SECOND) for n in range(3)] == SPREADS


SPREADS = [38626643, 38683346, 3697669]


def test_jobs_and_occurrences_are_spread_evenly() -> None:
    """Of many jobs at one moment, as of many moments of one job, about as many fall into each tenth of the width."""
    of_jobs = [spread(JobId(f"job-{n}"), NEW_YEAR, 1000) // 100 for n in range(5000)]
    of_moments = [spread(JobId("job"), seconds(60 * n), 1000) // 100 for n in range(5000)]
    for tenths in (of_jobs, of_moments):
        assert all(400 < tenths.count(tenth) < 600 for tenth in range(10))


def test_a_run_is_due_after_delay_and_jitter() -> None:
    """Nominal + delay is the earliest, nominal + delay + jitter the latest; without either it is the nominal time."""
    assert due_of(a_job(a_definition()), seconds(7)) == seconds(7)
    assert due_of(a_job(a_definition(delay=2.5)), seconds(7)) == seconds(9.5)
    job = a_job(a_definition(delay=60, jitter=10))
    assert due_of(job, seconds(7)) == seconds(67) + spread(job.id, seconds(7), 10 * SECOND)


@pytest.mark.parametrize("delay", [0, 0.5, 3600])
def test_an_occurrence_is_decided_when_its_delay_is_over(delay: float) -> None:
    """Not before, and then at once."""
    definition = a_definition(delay=delay)
    assert decidable(definition, look_at(definition, seconds(7))) == seconds(7)
