"""Tasks as JSON."""

from datetime import datetime
from typing import Any, ClassVar, Self

from tokimori.service.views.jobs import Job
from tokimori.service.views.outside import Outside, Sources
from tokimori.service.views.runs import Run


class TaskBuild(Outside, frozen=True, kw_only=True):
    """A build of a task. `size` is in bytes."""

    SOURCES: ClassVar[Sources] = {"built": "at"}

    digest: str
    size: int
    schedule: str | None
    description: str | None
    dependencies: tuple[str, ...]
    built: datetime
    by: str | None


class Upload(Outside, frozen=True, kw_only=True):
    """Upload of a build: its author (None: unknown) and its beginning."""

    by: str | None
    at: datetime
    digest: str


class TaskDetails(Outside, frozen=True, kw_only=True):
    """A task: the digest of the build that runs, and its job; null if the job was deleted."""

    SOURCES: ClassVar[Sources] = {"name": "record.name", "id": "record.id", "build": "record.build.digest"}

    name: str
    id: str
    build: str
    job: Job | None


class TaskState(TaskDetails, frozen=True, kw_only=True):
    """A task with its builds, the newest first, and with its newest runs that run, wait and have ended.

    `is_served`: a living node serves it.
    """

    builds: tuple[TaskBuild, ...]
    is_served: bool
    running: Run | None
    waiting: Run | None
    ended: Run | None

    @classmethod
    def made(cls, value: Any, /, **more: Any) -> Self:
        """Return the task of such a state."""
        found = {name: getattr(value, name) for name in ("is_served", "running", "waiting", "ended")}
        return super().made(value.details, builds=value.details.record.builds, **found, **more)


class LogLine(Outside, frozen=True, kw_only=True):
    """A line of a task's log; `run_id` is null if it concerns the task itself.

    `exact` is false if its time is unknown: then `at` is the start of the attempt.
    """

    at: datetime
    level: str
    message: str
    run_id: str | None
    exact: bool
