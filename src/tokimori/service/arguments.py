"""The keyword arguments by which a program says a job, a calendar or a request: `add("id", command="make report")`.

Their meaning is written at `JobFields`, `Calendar` and `Request`. A type checker finds a misspelt one. None always
stands for the default.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from os import PathLike
from typing import Literal, Required, TypedDict
from zoneinfo import ZoneInfo

from tokimori.service.given import Span, When

Payload = str | Mapping[str, object] | Sequence[object]
"""What a run gets: a text as it is, a dict or a list as JSON."""
Path = str | PathLike[str]


class RetryArguments(TypedDict, total=False):
    """When a failed attempt is tried again (`Retry`)."""

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
    """What makes a job a notifier (`Notifier`)."""

    subject: str | None
    text: str | None
    bundle: Span | None
    quiet: Sequence[str] | None
    elsewhere: bool | None


class JobArguments(TypedDict, total=False):
    """What a user says of a job (`JobFields`)."""

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
    payload: Payload | None
    on_lost_lease: str | None
    on_exhausted: str | None
    on_failure_job: str | None
    notify: Mapping[str, Sequence[str] | None] | None
    notifier: NotifierArguments | None
    auto_complete_success: bool | None
    parents: Sequence[ParentArguments] | None
    join: str | None
    retention: str | timedelta | None
    keep_runs: int | None
    expect_within: Span | None
    mailto: str | None
    semaphores: Sequence[str] | None
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


class CalendarArguments(TypedDict, total=False):
    """What a user says of a calendar (`Calendar`)."""

    description: str | None
    dates: Sequence[str | date] | None
    weekdays: Sequence[str] | None


class QueueArguments(TypedDict, total=False):
    """What a set declares of a queue: whether it is paused, and why, which is told when the pause begins."""

    paused: Required[bool]
    reason: str | None


class SemaphoreArguments(TypedDict):
    """What a set declares of a semaphore."""

    limit: int


class PlainRequest(TypedDict, total=False):
    """What one of many requests may say (`Request`)."""

    key: str | None
    payload: Payload | None
    at: When | None
    priority: int | None
    parent: str | None
    concurrency_key: str | None
    traceparent: str | None


class RequestArguments(TypedDict, total=False):
    """What a user says of a request beside its key and payload (`Request`)."""

    at: When | None
    priority: int | None
    parent: str | None
    force: bool
    debounce: Span | None
    throttle: Span | None
    replace: bool
    concurrency_key: str | None
    traceparent: str | None
