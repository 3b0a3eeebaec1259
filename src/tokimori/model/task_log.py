"""The log of a task, in the lines of Keiji: what its runs wrote, and what happened to it, by time. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.model.task import Event, TaskRecord, What
from tokimori.model.transitions import RunState

INFO: Final = "INFO"
ERROR: Final = "ERROR"
DISABLED: Final = "task disabled, exiting..."
TERMINATED: Final = "task terminated, exiting..."


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a task's log. `run_id` is that of the run that wrote it; None: the line tells of the task itself."""

    at: Moment
    level: str
    message: str
    run_id: str | None = None


def log_lines(record: TaskRecord, job: Job | None, runs: Sequence[tuple[Run, bytes]]) -> list[LogLine]:
    """All lines by time: of what happened to the task, and of these runs with what each wrote."""
    told = [line for event in record.events for line in event_lines(record.name, event)]
    if job is not None and job.state is JobState.PAUSED and not _says_disabled(record):
        told.append(LogLine(at=job.updated, level=INFO, message=DISABLED))
    written = [line for run, output in runs for line in run_lines(run, output)]
    return sorted([*told, *written], key=lambda line: line.at)


def event_lines(name: str, event: Event) -> Iterator[LogLine]:
    """What is said of something that happened: in Keiji's words where Keiji has some."""
    match event.what:
        case What.BUILT:
            message = f"task {name} {said_of(event.detail)}"
        case What.RESTARTED:
            message = TERMINATED
        case What.ROLLED_BACK:
            message = f"task {name} rolled back to build {(event.detail or '')[:12]}"
        case What.DISABLED:
            message = DISABLED
        case What.ENABLED:
            message = f"task {name} enabled"
        case What.RESOLVED:
            message = f"task {name} resolved"
    yield LogLine(at=event.at, level=INFO, message=message)


def said_of(schedule: str | None) -> str:
    """The schedule, as Keiji's log names one: the number of its interval."""
    words = (schedule or "").split()
    if len(words) == 3 and words[0] == "every" and words[1].isdecimal() and words[2].startswith("second"):
        return f"interval: {words[1]}"
    return f"schedule: {schedule or 'on demand'}"


def run_lines(run: Run, output: bytes) -> Iterator[LogLine]:
    """Each line that is not empty that a run wrote, at its end as in Keiji; while it runs, at its start."""
    at = run.ended or run.started or run.due
    failed = run.state is RunState.FAILED
    level = ERROR if failed else INFO
    for text in output.decode(errors="replace").splitlines():
        if text.strip():
            yield LogLine(at=at, level=level, message=text, run_id=run.id)
    if failed and run.error:
        yield LogLine(at=at, level=ERROR, message=f"[ task error ]: {run.error}", run_id=run.id)


def _says_disabled(record: TaskRecord) -> bool:
    """Whether the last that happened to it was that it was disabled."""
    last = [event.what for event in record.events if event.what in (What.DISABLED, What.ENABLED, What.RESOLVED)]
    return bool(last) and last[-1] is What.DISABLED
