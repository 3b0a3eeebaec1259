"""Statistics of a job as JSON."""

from datetime import date

from tokimori.model.statistics import Sizes
from tokimori.service.views.outside import Length, Outside


class QuantilesView(Outside, frozen=True, kw_only=True):
    """Seconds of some runs: the 50th, 95th and 99th percentile (by the nearest rank), and the most."""

    p50: Length
    p95: Length
    p99: Length
    most: Length


class DayView(Outside, frozen=True, kw_only=True):
    """Number of runs by end on one day (UTC), and of skipped occurrences."""

    day: date
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


class StatisticsView(Outside, frozen=True, kw_only=True):
    """Statistics of a job. `duration` and `lateness` are seconds of its newest `measured` ended runs, as `by_hour` is.

    `cpu` (seconds of processors) and `memory` (bytes at the peak) are of the last attempts whose cost is known.
    `by_hour`: how many of them started in each hour on the clocks of the job's zone. `by_day`: the newest 30 days on
    which anything happened. `more`: the job has more rows than are counted.
    """

    job_id: str
    outcomes: dict[str, int]
    more: bool
    success_rate: float | None
    measured: int
    duration: QuantilesView | None
    lateness: QuantilesView | None
    cpu: QuantilesView | None
    memory: Sizes | None
    by_hour: tuple[int, ...]
    by_day: tuple[DayView, ...]
