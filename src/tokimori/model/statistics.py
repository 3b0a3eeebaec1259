"""Statistics of a job: success rate, durations and lateness, by hour and by day. Pure.

Counts of days survive pruning; lengths and lateness are those of the newest ended runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from tokimori.clock import DAY, SECOND, Moment
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run
from tokimori.model.transitions import RunState

DAYS = 30
"""Days that are listed one by one."""
_OUTCOMES = (RunState.SUCCEEDED, RunState.FAILED)


class Quantiles(Struct, frozen=True, kw_only=True):
    """Seconds of some runs: the 50th, 95th and 99th percentile (by the nearest rank), and the most."""

    p50: float
    p95: float
    p99: float
    most: float


class Sizes(Struct, frozen=True, kw_only=True):
    """Bytes of some runs, as in `Quantiles`."""

    p50: int
    p95: int
    p99: int
    most: int


class Day(Struct, frozen=True, kw_only=True):
    """Number of runs by end on one day (UTC), and of skipped occurrences."""

    day: Moment
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


class Statistics(Struct, frozen=True, kw_only=True):
    """Statistics of a job.

    `outcomes` counts ends of runs and reasons of skips over all days; `more`: the job has more rows than are counted.
    `success_rate` (0 to 1) is that of the runs that succeeded or failed. `duration` (seconds of the last attempt),
    `lateness` (first start minus due) and `by_hour` (starts in each hour, in the job's zone) are of the newest
    `measured` ended runs. `cpu` (seconds of processors) and `memory` (bytes at the peak) are those of the last
    attempts, if they are known. `by_day`: the newest days with any event.
    """

    job_id: str
    outcomes: Mapping[str, int]
    more: bool
    success_rate: float | None
    measured: int
    duration: Quantiles | None
    lateness: Quantiles | None
    cpu: Quantiles | None
    memory: Sizes | None
    by_hour: tuple[int, ...]
    by_day: tuple[Day, ...]


def statistics(job_id: str, counts: Sequence[DailyCount], runs: Sequence[Run], zone: str) -> Statistics:
    """Return the statistics of these counts, and of these ended runs, newest first."""
    outcomes: Counter[str] = Counter()
    for count in counts:
        outcomes[count.outcome] += count.count
    succeeded, failed = (outcomes[state] for state in _OUTCOMES)
    started = [run for run in runs if run.started is not None and run.ended is not None]
    return Statistics(
        job_id=job_id,
        outcomes=dict(outcomes),
        more=any(count.more for count in counts),
        success_rate=succeeded / (succeeded + failed) if succeeded + failed else None,
        measured=len(started),
        duration=quantiles([(run.ended or 0) - (run.started or 0) for run in started]),
        lateness=quantiles([(run.started or 0) - run.due for run in started if run.attempt == 1]),
        cpu=quantiles([run.cpu for run in started if run.cpu is not None]),
        memory=_sizes(sorted(run.memory for run in started if run.memory is not None)),
        by_hour=_by_hour(started, zone),
        by_day=_by_day(counts),
    )


def quantiles(lengths: Sequence[int]) -> Quantiles | None:
    """Return quantiles of lengths in microseconds; None for none. Negative ones (clocks differ) count as 0."""
    if not lengths:
        return None
    p50, p95, p99, most = (max(0, each) / SECOND for each in _reached(sorted(lengths)))
    return Quantiles(p50=p50, p95=p95, p99=p99, most=most)


def _sizes(ordered: Sequence[int]) -> Sizes | None:
    if not ordered:
        return None
    p50, p95, p99, most = _reached(ordered)
    return Sizes(p50=p50, p95=p95, p99=p99, most=most)


def _reached(ordered: Sequence[int]) -> Sequence[int]:
    return [ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 95, 99, 100)]


def _by_hour(runs: Sequence[Run], zone: str) -> tuple[int, ...]:
    clock = ZoneInfo(zone)
    hours = Counter(datetime.fromtimestamp((run.started or 0) / SECOND, UTC).astimezone(clock).hour for run in runs)
    return tuple(hours[hour] for hour in range(24))


def _by_day(counts: Sequence[DailyCount]) -> tuple[Day, ...]:
    days: dict[Moment, Counter[str]] = {}
    for count in counts:
        days.setdefault(count.day, Counter())[count.outcome] += count.count
    return tuple(_day(day, days[day]) for day in sorted(days)[-DAYS:])


def _day(day: Moment, of: Counter[str]) -> Day:
    ends = {state: of.pop(state, 0) for state in (*_OUTCOMES, RunState.CANCELLED)}
    succeeded, failed, cancelled = ends.values()
    return Day(day=day, succeeded=succeeded, failed=failed, cancelled=cancelled, skipped=of.total())


def last_days(statistics: Statistics, now: Moment) -> Sequence[Day]:
    """Return the `DAYS` days up to now, those without events included."""
    known = {day.day: day for day in statistics.by_day}
    today = now - now % DAY
    wanted = [Moment(today - n * DAY) for n in range(DAYS - 1, -1, -1)]
    return [known.get(day) or Day(day=day, succeeded=0, failed=0, cancelled=0, skipped=0) for day in wanted]


def seconds(value: float) -> str:
    """Return seconds in words: `230 ms`, `4.2 s`, `3.5 min`."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def size(value: int) -> str:
    """Return bytes in words: `15.2 MiB`, `2.5 GiB`."""
    return f"{value / 2**20:.1f} MiB" if value < 2**30 else f"{value / 2**30:.1f} GiB"


def cost(cpu: int | None, memory: int | None) -> tuple[str, str]:
    """Return in words what an attempt cost; empty is what is not known."""
    return "" if cpu is None else seconds(cpu / SECOND), "" if memory is None else size(memory)
