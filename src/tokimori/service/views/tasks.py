"""Tasks as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.task import BuildRecord, LogLine
from tokimori.service.tasks import TaskDetails, TaskState
from tokimori.service.views.jobs import JobView, job_view
from tokimori.service.views.runs import RunView, run_view


class BuildView(Struct, frozen=True, kw_only=True):
    """A build of a task. `size` is in bytes."""

    digest: str
    size: int
    schedule: str | None
    description: str | None
    dependencies: tuple[str, ...]
    built: str
    by: str | None


class TaskView(Struct, frozen=True, kw_only=True):
    """A task: the digest of the build that runs, and its job; null where that was deleted by itself."""

    name: str
    id: str
    build: str
    job: JobView | None


class TaskStateView(TaskView, frozen=True, kw_only=True):
    """A task with its builds, the newest first, and with its newest runs that run, wait and have ended.

    `is_served`: whether there is a node.
    """

    builds: tuple[BuildView, ...]
    is_served: bool
    running: RunView | None
    waiting: RunView | None
    ended: RunView | None


class LogLineView(Struct, frozen=True, kw_only=True):
    """A line of a task's log; `run_id` is null where it tells of the task itself.

    `exact` is false where nobody knows when the run wrote it: then `at` is the start of the attempt.
    """

    at: str
    level: str
    message: str
    run_id: str | None
    exact: bool


def build_view(build: BuildRecord) -> BuildView:
    """Return the build as JSON shows it."""
    return BuildView(
        digest=build.digest,
        size=build.size,
        schedule=build.schedule,
        description=build.description,
        dependencies=build.dependencies,
        built=format_moment(build.at),
        by=build.by,
    )


def task_view(details: TaskDetails) -> TaskView:
    """Return the task as JSON shows it in lists."""
    record, job = details.record, details.job
    return TaskView(
        name=record.name, id=record.id, build=record.build.digest, job=None if job is None else job_view(job)
    )


def task_state_view(state: TaskState) -> TaskStateView:
    """Return the task as JSON shows it by itself."""
    shown = task_view(state.details)
    runs = [None if run is None else run_view(run) for run in (state.running, state.waiting, state.ended)]
    return TaskStateView(
        name=shown.name,
        id=shown.id,
        build=shown.build,
        job=shown.job,
        builds=tuple(build_view(each) for each in state.details.record.builds),
        is_served=state.is_served,
        running=runs[0],
        waiting=runs[1],
        ended=runs[2],
    )


def log_line_view(line: LogLine) -> LogLineView:
    """Return the line as JSON shows it."""
    at = format_moment(line.at)
    return LogLineView(at=at, level=line.level, message=line.message, run_id=line.run_id, exact=line.exact)
