"""Kala's JSON of requests and answers, and its schedules and durations, written as ours. Pure.

Answers have the members of both versions of Kala: those of 2015 (flat, CamelCase in stats), and those of 2023 beside
them. `ZERO_TIME` is a missing moment. A schedule is `R[n]/start/interval`, read as Kala reads it.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.duration import Duration, parse_duration
from tokimori.schedules.stamp import parse_stamp
from tokimori.service.definitions.definitions import MOST_RUNS
from tokimori.spelling import amount

PREFIX = "/api/v1/"
"""Where the API is."""
ZERO_TIME = "0001-01-01T00:00:00Z"
"""What Go writes for no time."""
LOCAL, REMOTE = 0, 1
"""The types of jobs: a command, or a request."""


class Remote(Struct, frozen=True, kw_only=True):
    """Request of a remote job: `timeout` in seconds (0: 30), `expected_response_codes` (none: only 200)."""

    url: str = ""
    method: str = ""
    body: str = ""
    headers: dict[str, tuple[str, ...]] | None = None
    timeout: Annotated[int, Meta(ge=0)] = 0
    expected_response_codes: tuple[int, ...] | None = None


class JobRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request for a job. Members that Kala itself keeps (`id`, `metadata` …) are not read."""

    name: str = ""
    command: str = ""
    owner: str = ""
    disabled: bool = False
    parent_jobs: tuple[str, ...] = ()
    on_failure_job: str = ""
    schedule: str = ""
    retries: Annotated[int, Meta(ge=0)] = 0
    epsilon: str = ""
    delimiters: str = field(name="TemplateDelimiters", default="")
    resume_at_next_scheduled_time: bool = False
    type: Literal[0, 1] = 0
    remote_properties: Remote = Remote()


class Created(Struct, frozen=True, kw_only=True):
    """The id of a new job."""

    id: str


class JobStat(Struct, frozen=True, kw_only=True):
    """A run that has ended; `execution_duration` in nanoseconds."""

    job_id: str = ""
    ran_at: str = ZERO_TIME
    number_of_retries: int = 0
    success: bool = False
    execution_duration: int = 0
    old_job_id: str = field(name="JobId", default="")
    old_ran_at: str = field(name="RanAt", default=ZERO_TIME)
    old_number_of_retries: int = field(name="NumberOfRetries", default=0)
    old_success: bool = field(name="Success", default=False)
    old_execution_duration: int = field(name="ExecutionDuration", default=0)


class Metadata(Struct, frozen=True, kw_only=True):
    """Results of a job's runs."""

    success_count: int = 0
    last_success: str = ZERO_TIME
    error_count: int = 0
    last_error: str = ZERO_TIME
    last_attempted_run: str = ZERO_TIME
    number_of_finished_runs: int = 0


class KalaJob(Struct, frozen=True, kw_only=True):
    """A job."""

    name: str
    id: str
    command: str = ""
    owner: str = ""
    disabled: bool = False
    dependent_jobs: tuple[str, ...] | None = None
    parent_jobs: tuple[str, ...] | None = None
    on_failure_job: str = ""
    schedule: str = ""
    retries: int = 0
    epsilon: str = ""
    success_count: int = 0
    last_success: str = ZERO_TIME
    error_count: int = 0
    last_error: str = ZERO_TIME
    last_attempted_run: str = ZERO_TIME
    next_run_at: str = ZERO_TIME
    delimiters: str = field(name="TemplateDelimiters", default="")
    resume_at_next_scheduled_time: bool = False
    metadata: Metadata = Metadata()
    type: int = LOCAL
    remote_properties: Remote = Remote()
    stats: tuple[JobStat, ...] | None = None
    is_done: bool = False


class JobAnswer(Struct, frozen=True, kw_only=True):
    """The answer with one job."""

    job: KalaJob


class JobsAnswer(Struct, frozen=True, kw_only=True):
    """The answer with all jobs, by id."""

    jobs: dict[str, KalaJob]


class StatsAnswer(Struct, frozen=True, kw_only=True):
    """The answer with the runs of a job, the oldest first."""

    job_stats: tuple[JobStat, ...] | None


class KalaStats(Struct, frozen=True, kw_only=True):
    """Figures of all jobs together. `created` is the moment of the request."""

    active_jobs: int = 0
    disabled_jobs: int = 0
    jobs: int = 0
    error_count: int = 0
    success_count: int = 0
    next_run_at: str = ZERO_TIME
    last_attempted_run: str = ZERO_TIME
    created: str = ZERO_TIME
    old_active_jobs: int = field(name="ActiveJobs", default=0)
    old_disabled_jobs: int = field(name="DisabledJobs", default=0)
    old_jobs: int = field(name="Jobs", default=0)
    old_error_count: int = field(name="ErrorCount", default=0)
    old_success_count: int = field(name="SuccessCount", default=0)
    old_next_run_at: str = field(name="NextRunAt", default=ZERO_TIME)
    old_last_attempted_run: str = field(name="LastAttemptedRun", default=ZERO_TIME)
    old_created: str = field(name="CreatedAt", default=ZERO_TIME)


class KalaStatsAnswer(Struct, frozen=True, kw_only=True):
    """The answer with all jobs together."""

    stats: KalaStats = field(name="Stats")


class KalaFault(Struct, frozen=True, kw_only=True):
    """Answer to a request that failed. `error` is the reason."""

    error: str
    code: str = ""
    field: str | None = None
    allowed: str | None = None


_WEEKS = re.compile(r"P(\d+)W", re.ASCII)
_PARTS = re.compile(r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:(T)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,19}\Z", re.ASCII)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\Z", re.ASCII)
_LONGER = re.compile(r"(\.\d{9})\d+")
_FORM = "R[n]/start/interval, such as R2/2030-06-04T19:25:16-07:00/PT10S"
_INTERVALS = "an ISO 8601 duration above zero such as PT10S, P1DT2H or P2W, in whole numbers"
_ONCE = "P1D"
"""The interval of a schedule that names one moment: it has no meaning."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Schedule of `runs` in all (None: without end), the first at `start`. `text` is it in our notation."""

    runs: int | None
    start: Moment
    text: str


@lru_cache(maxsize=1024)
def read_schedule(text: str) -> Repeats:
    """Read a schedule. The number after `R` is how often it is repeated: n + 1 runs. Raises `InvalidSchedule`."""
    parts = text.split("/")
    if len(parts) != 3:
        raise _invalid("schedule", text, f"has {amount(len(parts), 'part')} instead of 3", _FORM)
    runs, start = _runs(parts[0]), _start(parts[1])
    if runs == 1:
        return Repeats(1, start, f"R0/{_written(parts[1])}/{_ONCE}")
    return Repeats(runs, start, f"R/{_written(parts[1])}/{read_duration('interval', parts[2])}")


def epsilon_seconds(text: str) -> float | None:
    """Return the seconds of an epsilon, a month as 30 days, a year as 365; None for none. Raises `InvalidSchedule`."""
    if not text or _is_zero(text):
        return None
    length = read_duration("epsilon", text)
    years, months = divmod(length.months, 12)
    return ((years * 365 + months * 30 + length.days) * DAY + length.exact) / SECOND


def read_duration(field: str, text: str) -> Duration:
    """Read a duration as Kala does: text around it is ignored, and weeks stand alone. Raises `InvalidSchedule`, also
    for a length of zero.

    Raises `InvalidSchedule`, also for a length of zero.
    """
    if (weeks := _WEEKS.search(text)) is not None:
        return parse_duration(weeks[0], field=field)
    found = _PARTS.search(text)
    if found is None or found[0].endswith(("P", "T")):
        raise _invalid(field, text, "is not a duration", _INTERVALS)
    return parse_duration(found[0], field=field)


def _is_zero(text: str) -> bool:
    found = _WEEKS.search(text) or _PARTS.search(text)
    return found is not None and found[0][-1] not in "PT" and not re.search("[1-9]", found[0])


def _runs(text: str) -> int | None:
    """Return the number of runs as Kala reads it: the text between the first R and the second."""
    if text == "R":
        return None
    between = text.split("R")[1:2]
    if not between or not _NUMBER.match(between[0]):
        raise _invalid("schedule", text, "is not how often it is repeated", "R, or R and a whole number")
    repeats = int(between[0])
    return None if repeats < 0 or repeats >= MOST_RUNS else repeats + 1


def _start(text: str) -> Moment:
    if not _STAMP.match(text):
        raise _invalid("schedule", text, "is not a start", "2030-06-04T19:25:16, with Z or an offset such as -07:00")
    return Moment(parse_stamp(_written(text), field="schedule").moment_in("UTC"))


def _written(start: str) -> str:
    """Return the start as our notation has it, without digits below the nanosecond."""
    return _LONGER.sub(r"\1", start)


def _invalid(field: str, text: str, fault: str, allowed: str) -> InvalidSchedule:
    return InvalidSchedule(f"{field}: {text!r} {fault}", field=field, value=text, allowed=allowed)
