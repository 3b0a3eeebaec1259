"""Statistics of a job as JSON."""

from msgspec import Struct

from tokimori.clock import to_datetime
from tokimori.model.statistics import Quantiles, Statistics


class DayView(Struct, frozen=True, kw_only=True):
    """Number of runs by end on one day (UTC), and of skipped occurrences."""

    day: str
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


class StatisticsView(Struct, frozen=True, kw_only=True):
    """Statistics of a job. `duration` and `lateness` are seconds of its newest `measured` ended runs, as `by_hour` is.

    `by_hour`: how many of them started in each hour on the clocks of the job's zone. `by_day`: the newest 30 days on
    which anything happened. `more`: the job has more rows than are counted.
    """

    job_id: str
    outcomes: dict[str, int]
    more: bool
    success_rate: float | None
    measured: int
    duration: Quantiles | None
    lateness: Quantiles | None
    by_hour: tuple[int, ...]
    by_day: tuple[DayView, ...]


def statistics_view(found: Statistics) -> StatisticsView:
    """Return the statistics as JSON shows them."""
    days = [
        DayView(
            day=to_datetime(day.day).date().isoformat(),
            succeeded=day.succeeded,
            failed=day.failed,
            cancelled=day.cancelled,
            skipped=day.skipped,
        )
        for day in found.by_day
    ]
    return StatisticsView(
        job_id=found.job_id,
        outcomes=dict(found.outcomes),
        more=found.more,
        success_rate=found.success_rate,
        measured=found.measured,
        duration=found.duration,
        lateness=found.lateness,
        by_hour=found.by_hour,
        by_day=tuple(days),
    )
