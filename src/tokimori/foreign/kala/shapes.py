"""Kala's JSON: what it is told of a job, and what it answers.

Answers have the members of both versions of Kala: those of 2015 (flat, CamelCase in stats), and those of 2023 beside
them. A moment that there is not is `ZERO_TIME`.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

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


class Job(Struct, frozen=True, kw_only=True):
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

    job: Job


class JobsAnswer(Struct, frozen=True, kw_only=True):
    """The answer with all jobs, by id."""

    jobs: dict[str, Job]


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
