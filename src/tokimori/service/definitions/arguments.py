"""The keyword arguments by which a program says a job, a calendar or a request: `add("id", command="make report")`.

The fields of a job are described by `tokimori.model.job_fields`, the others at `Calendar` and `Request`. A type checker
finds a misspelt one. None always stands for the default.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, NotRequired, TypedDict
from zoneinfo import ZoneInfo

from tokimori.model.job_fields import described
from tokimori.model.run import Step
from tokimori.service.validation import Ahead, Span, When

Payload = str | Mapping[str, object] | Sequence[object]
"""What a run gets: a text as it is, a dict or a list as JSON."""
Path = str | PathLike[str]
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("cron", "crontab", "trigger", "interval", "run_every", "repeat"), "schedule"),
        **dict.fromkeys(("every", "when", "seconds", "minutes", "hours", "days", "hour", "minute", "day"), "schedule"),
        **dict.fromkeys(("cron_string", "schedule_interval", "periodic", "cron_expression"), "schedule"),
        **dict.fromkeys(("retries", "max_retries", "max_attempts", "max_tries", "retry_count"), "attempts"),
        **dict.fromkeys(("retry_attempts", "retry_times", "retry_limit"), "attempts"),
        **dict.fromkeys(("default_retry_delay", "retry_interval", "retry_after", "min_backoff"), "retry_delay"),
        **dict.fromkeys(("backoff", "backoff_factor", "exponential_backoff"), "retry_backoff"),
        **dict.fromkeys(("max_backoff", "retry_backoff_max", "max_retry_delay"), "retry_cap"),
        **dict.fromkeys(("autoretry_for", "retry_for", "retry_exceptions", "retry_if"), "retry_on"),
        **dict.fromkeys(("dont_autoretry_for", "throws"), "never_on"),
        **dict.fromkeys(
            ("countdown", "eta", "at", "run_at", "run_date", "delay_until", "schedule_at", "defer_until"), "at"
        ),
        **dict.fromkeys(("rate", "throttle"), "rate_limit"),
        **dict.fromkeys(("approvers", "approved_by"), "approver"),
        **dict.fromkeys(("prevent_self_review", "prevent_self_approval"), "four_eyes"),
        **dict.fromkeys(("max_instances", "concurrency", "max_concurrency", "limit", "singleton"), "max_running"),
        **dict.fromkeys(("time_limit", "soft_time_limit", "job_timeout", "max_runtime", "run_timeout"), "timeout"),
        **dict.fromkeys(("timeout_seconds", "execution_timeout", "max_duration"), "timeout"),
        **dict.fromkeys(("memory", "memory_limit"), "max_memory"),
        **dict.fromkeys(("misfire_grace_time", "expires", "starting_deadline"), "grace"),
        **dict.fromkeys(("timezone", "tz", "zone"), "time_zone"),
        **dict.fromkeys(("args", "kwargs", "data", "params", "parameters"), "payload"),
        **dict.fromkeys(("priority_level", "importance"), "priority"),
        **dict.fromkeys(("cmd", "script", "shell", "run"), "command"),
        **dict.fromkeys(("task", "func", "handler"), "function"),
        **dict.fromkeys(("environment", "envs"), "env"),
        **dict.fromkeys(("workdir", "working_dir", "working_directory"), "cwd"),
        **dict.fromkeys(("depends_on", "dependencies", "after", "dependent_on"), "parents"),
        **dict.fromkeys(("start_date", "start_time", "not_before"), "starts_at"),
        **dict.fromkeys(("end_date", "end_time", "until"), "ends_at"),
        **dict.fromkeys(("result_ttl", "keep_result", "ttl"), "retention"),
        **dict.fromkeys(("job_id", "unique_key", "idempotency_key", "dedup_key", "task_id"), "key"),
        **dict.fromkeys(("coalesce", "catchup", "catch_up"), "misfire"),
        **dict.fromkeys(("queue_name", "channel"), "queue"),
        "tags": "labels",
        **dict.fromkeys(("on_failure", "on_error", "link_error"), "on_failure_job"),
        **dict.fromkeys(("lock", "queueing_lock", "mutex"), "semaphores"),
        "repeats": "runs_remaining",
        "max_runs": "runs_remaining",
    }
)
"""Words of other schedulers, and what stands for them here."""


class JobFilters(TypedDict, total=False):
    """Filters of a list of jobs: those in one of these states, with an id that begins with `prefix`.

    Each `label` is `KEY=VALUE`, or `KEY` for any value. `after`: only jobs behind this id. `limit`: how many at most.
    """

    state: str | Collection[str] | None
    prefix: str | None
    label: str | Collection[str] | None
    owner: str | None
    queue: str | None
    after: str | None
    limit: int


class RunFilters(TypedDict, total=False):
    """Filters of a list of runs: of one job, or of jobs with ids that begin with `job_prefix`, in one of these states.

    `label` (`KEY=VALUE`, or `KEY`), `owner` and `queue` are those of the job as it is now: runs of a deleted job have
    none. `since` and `until`: made then or later, and before. `before`: older than this run. `limit`: how many at most.
    `cause`: failures with this cause, or with that of this id. `text`: in the payload, the error, the result or the
    kept output of the newest attempt, as it is written. `node`: the newest attempt is at the node of this id or host.
    `duration_over`: it has lasted for longer. `longest`: texts such as payloads of more bytes are left out, with 0 all
    of them.
    """

    job_id: str | None
    job_prefix: str | None
    state: str | Collection[str] | None
    label: str | Collection[str] | None
    owner: str | None
    queue: str | None
    since: When | None
    until: When | None
    cause: str | None
    text: str | None
    node: str | None
    duration_over: Span | None
    before: str | None
    limit: int
    longest: int | None


class FailureFilters(TypedDict, total=False):
    """Filters of failures: runs that failed at `since` or later (a day ago by default), and before `until` (now).

    They are of one job, or of jobs with ids that begin with `job_prefix`; `label`, `owner` and `queue` are as in
    `RunFilters`. `buckets`: into how many equal parts the period is counted. `before`: only runs made before this one.
    """

    since: When | None
    until: When | None
    job_id: str | None
    job_prefix: str | None
    label: str | Collection[str] | None
    owner: str | None
    queue: str | None
    buckets: int
    before: str | None


class RetryArguments(TypedDict, total=False):
    """Retry policy of a job (`Retry`)."""

    attempts: int | None
    delay: Span | None
    backoff: float | None
    cap: Span | None
    jitter: float | None
    epsilon: Span | None
    lost_attempts: int | Literal["unlimited"] | None
    asked_delay: Span | None
    asked_retries: int | None
    wait: Span | None


class _Parent(TypedDict):
    job: str


class ParentArguments(_Parent, total=False):
    """A job after which this one runs, and which end of it counts (`Parent`)."""

    on: str


class NotifierArguments(TypedDict, total=False):
    """Terms of a notifier (`Notifier`)."""

    subject: str | None
    text: str | None
    bundle: Span | None
    quiet: Sequence[str] | None
    elsewhere: bool | None


class JobArguments(TypedDict, total=False):
    """Terms of a job (`JobFields`)."""

    schedule: str | None
    time_zone: str | ZoneInfo | None
    gap: str | None
    fold: str | None
    calendars: Sequence[str] | None
    shift: str | None
    starts_at: str | datetime | None
    ends_at: str | datetime | None
    delay: Span | None
    jitter: Span | None
    anchored_on: str | None
    name: str | None
    description: str | None
    owner: str | None
    misfire: str | None
    late_after: Span | None
    grace: Span | None
    max_running: int | None
    max_waiting: int | None
    on_overlap: str | None
    retry: RetryArguments | None
    priority: int | None
    queue: str | None
    labels: Mapping[str, str | None] | None
    timeout: Span | None
    timeout_grace: Span | None
    max_cpu: Span | None
    max_memory: int | None
    payload: Payload | None
    on_lost_lease: str | None
    on_exhausted: str | None
    on_failure_job: str | None
    notify: Mapping[str, Sequence[str] | None] | None
    notifier: NotifierArguments | None
    approval: bool | None
    approver: str | None
    approve_within: Span | None
    four_eyes: bool | None
    auto_complete_success: bool | None
    own_process: bool | None
    client: bool | None
    parents: Sequence[ParentArguments] | None
    join: str | None
    retention: Span | None
    keep_runs: int | None
    expect_within: Span | None
    mailto: str | None
    semaphores: Sequence[str] | None
    rate_limit: str | None
    concurrency_key: str | None
    max_running_per_key: int | None
    runs_remaining: int | None
    command: str | Sequence[Path] | None
    function: str | None
    url: str | None
    email: Sequence[str] | None
    build: str | None
    noop: bool | None
    shell_path: Path | None
    env: Mapping[str, str | None] | None
    cwd: Path | None
    user: str | None
    stdin: str | None
    method: str | None
    headers: Mapping[str, str | None] | None
    body: str | None
    expect: Sequence[int] | None
    callback_within: Span | None
    sign_with: str | None
    smtp: str | None
    sender: str | None
    tls: str | None
    smtp_user: str | None
    smtp_password: str | None
    mail_subject: str | None
    mail_text: str | None


JobArguments.__doc__ = described("Fields of a job")
RetryArguments.__doc__ = described("Retry policy of a job", "retry.")
NotifierArguments.__doc__ = described("Terms of a notifier", "notifier.")


class CalendarArguments(TypedDict, total=False):
    """Days of a calendar (`Calendar`)."""

    description: str | None
    dates: Sequence[str | date] | None
    weekdays: Sequence[str] | None


class QueueArguments(TypedDict, total=False):
    """Declaration of a queue by a set: its pause, the reason, which counts when the pause begins, and its rate."""

    paused: bool
    reason: str | None
    rate: str | None


class SemaphoreArguments(TypedDict):
    """Declaration of a semaphore by a set."""

    limit: int
    rate: NotRequired[str]


class PlainRequest(TypedDict, total=False):
    """One of many requests (`Request`)."""

    key: str | None
    payload: Payload | None
    at: When | Ahead | None
    priority: int | None
    parent: str | None
    concurrency_key: str | None
    traceparent: str | None
    unique: Literal["until_start", "until_end"] | None
    on_duplicate: Literal["same", "refuse", "replace"] | None
    expires: Ahead | None
    then: Sequence[Step | Mapping[str, Any]]


class RequestArguments(TypedDict, total=False):
    """Terms of a request beside its key and payload (`Request`)."""

    at: When | Ahead | None
    priority: int | None
    parent: str | None
    force: bool
    debounce: Span | None
    throttle: Span | None
    replace: bool
    concurrency_key: str | None
    traceparent: str | None
    unique: Literal["until_start", "until_end"] | None
    on_duplicate: Literal["same", "refuse", "replace"] | None
    in_place_of: Sequence[str | None] | None
    expires: Ahead | None
    then: Sequence[Step | Mapping[str, Any]]
