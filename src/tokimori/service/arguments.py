"""The keyword arguments by which a program says a job, a calendar or a request: `add("id", command="make report")`.

Their meaning is written at `JobFields`, `Calendar` and `Request`. A type checker finds a misspelt one. None always
stands for the default.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from tokimori.clock import Moment


class RetryArguments(TypedDict, total=False):
    """When a failed attempt is tried again (`Retry`)."""

    attempts: int | None
    delay: float | None
    backoff: float | None
    cap: float | None
    jitter: float | None
    epsilon: float | None
    lost_attempts: int | None


class _Parent(TypedDict):
    job: str


class ParentArguments(_Parent, total=False):
    """A job after which this one runs, and which end of it counts (`Parent`)."""

    on: str


class JobArguments(TypedDict, total=False):
    """What a user says of a job (`JobFields`)."""

    schedule: str | None
    time_zone: str | None
    gap: str | None
    fold: str | None
    calendars: Sequence[str] | None
    shift: str | None
    starts_at: str | None
    ends_at: str | None
    delay: float | None
    jitter: float | None
    anchored_on: str | None
    name: str | None
    description: str | None
    owner: str | None
    misfire: str | None
    late_after: float | None
    grace: float | None
    max_running: int | None
    max_waiting: int | None
    on_overlap: str | None
    retry: RetryArguments | None
    priority: int | None
    queue: str | None
    labels: Mapping[str, str | None] | None
    timeout: float | None
    timeout_grace: float | None
    on_lost_lease: str | None
    on_exhausted: str | None
    on_failure_job: str | None
    auto_complete_success: bool | None
    parents: Sequence[ParentArguments] | None
    join: str | None
    retention: str | None
    keep_runs: int | None
    mailto: str | None
    semaphores: Sequence[str] | None
    concurrency_key: str | None
    max_running_per_key: int | None
    runs_remaining: int | None
    command: str | Sequence[str] | None
    noop: bool | None
    shell_path: str | None
    env: Mapping[str, str | None] | None
    cwd: str | None
    user: str | None
    stdin: str | None


class CalendarArguments(TypedDict, total=False):
    """What a user says of a calendar (`Calendar`)."""

    description: str | None
    dates: Sequence[str] | None
    weekdays: Sequence[str] | None


class RequestArguments(TypedDict, total=False):
    """What a user says of a request beside its key and payload (`Request`)."""

    at: Moment | str | None
    priority: int | None
    parent: str | None
    force: bool
    debounce: float | None
    throttle: float | None
    replace: bool
    concurrency_key: str | None
