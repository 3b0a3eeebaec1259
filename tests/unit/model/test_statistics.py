"""How a job has done."""

from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_run
from tokimori.clock import DAY, HOUR, SECOND, Moment
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run
from tokimori.model.statistics import DAYS, cost, last_days, quantiles, seconds, size, statistics
from tokimori.model.transitions import RunState


def _count(day: int, outcome: str, count: int) -> DailyCount:
    return DailyCount(day=Moment(NEW_YEAR + day * DAY), outcome=outcome, count=count, pruned=0)


def _ended(late: float, took: float, **changes: object) -> Run:
    started = Moment(NEW_YEAR + round(late * SECOND))
    ended = Moment(started + round(took * SECOND))
    return replace(a_run(state=RunState.SUCCEEDED, started=started, ended=ended), **changes)


def test_nothing_is_told_of_a_job_that_never_ran() -> None:
    """It has no rate, no lengths, and no days."""
    found = statistics("job", [], [], "UTC")
    assert (found.success_rate, found.duration, found.lateness, found.by_day, found.measured) == (
        None,
        None,
        None,
        (),
        0,
    )
    assert found.by_hour == (0,) * 24


def test_the_rate_is_that_of_runs_that_succeeded_or_failed() -> None:
    """Cancelled ones and skips say nothing of how good the job is."""
    counts = [_count(0, "succeeded", 3), _count(0, "failed", 1), _count(1, "cancelled", 5), _count(1, "overlap", 7)]
    found = statistics("job", counts, [], "UTC")
    assert found.success_rate == 0.75
    assert [(day.succeeded, day.failed, day.cancelled, day.skipped) for day in found.by_day] == [
        (3, 1, 0, 0),
        (0, 0, 5, 7),
    ]


def test_lateness_is_that_of_first_attempts() -> None:
    """A retry starts late because the first attempt failed."""
    found = statistics("job", [], [_ended(1, 5), _ended(100, 7, attempt=2)], "UTC")
    assert found.lateness is not None and found.duration is not None
    assert (found.lateness.most, found.duration.most, found.measured) == (1, 7, 2)


def test_costs_are_of_attempts_of_which_they_are_known() -> None:
    """Others count neither as nothing nor at all; in words they are short."""
    runs = [_ended(0, 1, cpu=2_000_000, memory=3 * 2**20), _ended(0, 1, cpu=500_000), _ended(0, 1)]
    found = statistics("job", [], runs, "UTC")
    assert found.cpu is not None
    assert (found.cpu.p50, found.cpu.p95, found.cpu.most, found.measured) == (0.5, 2.0, 2.0, 3)
    assert found.memory is not None
    assert (found.memory.p50, found.memory.p95) == (3 * 2**20, 3 * 2**20)
    unknown = statistics("job", [], runs[2:], "UTC")
    assert (unknown.cpu, unknown.memory) == (None, None)
    assert cost(1_234_567, 5 * 2**29) == ("1.2 s", "2.5 GiB")
    assert (cost(0, None), cost(None, 1), seconds(180.0), size(2**20)) == (
        ("0 ms", ""),
        ("", "0.0 MiB"),
        "3.0 min",
        "1.0 MiB",
    )


def test_hours_are_those_of_the_zone() -> None:
    """The new year in UTC is nine in the morning in Tokyo."""
    assert statistics("job", [], [_ended(0, 1)], "Asia/Tokyo").by_hour[9] == 1


def test_quantiles_are_lengths_that_were_measured() -> None:
    """By the nearest rank: of a hundred, the 50th, the 95th and the 99th."""
    found = quantiles([n * SECOND for n in range(100, 0, -1)])
    assert found is not None
    assert (found.p50, found.p95, found.p99, found.most) == (50, 95, 99, 100)


def test_a_length_below_zero_counts_as_zero() -> None:
    """Two clocks may differ."""
    found = quantiles([-SECOND])
    assert found is not None and found.most == 0


def test_days_without_anything_are_among_the_last() -> None:
    """So that a bar chart has a place for each."""
    days = last_days(statistics("job", [_count(0, "failed", 2)], [], "UTC"), Moment(NEW_YEAR + 2 * DAY + HOUR))
    assert len(days) == DAYS
    assert [day.failed for day in days[-3:]] == [2, 0, 0]
