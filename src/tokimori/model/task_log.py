"""The log of a task, in the lines of Keiji: what its runs wrote, and what happened to it, by time. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.job import Job, JobState
from tokimori.model.run import Attempt, Run
from tokimori.model.task import TaskEvent, TaskRecord, What
from tokimori.model.transitions import RunState
from tokimori.schedules.zones import on_clocks

INFO: Final = "INFO"
ERROR: Final = "ERROR"
_FAILURES: Final = frozenset({"failed", "timed_out", "lost"})
DISABLED: Final = "task disabled, exiting..."
TERMINATED: Final = "task terminated, exiting..."


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a task's log. `run_id` is that of the run that wrote it; None: the line tells of the task itself."""

    at: Moment
    level: str
    message: str
    run_id: str | None = None


def log_lines(record: TaskRecord, job: Job | None, runs: Sequence[tuple[Run | Attempt, bytes]]) -> list[LogLine]:
    """Return all lines by time: of what happened to the task, and of these runs and earlier attempts with what each
    wrote.
    """
    told = [line for event in record.events for line in event_lines(event)]
    if job is not None and job.state is JobState.PAUSED and not _says_disabled(record):
        told.append(LogLine(at=job.updated, level=INFO, message=DISABLED))
    written = [
        line
        for each, output in runs
        for line in (run_lines(each, output) if isinstance(each, Run) else attempt_lines(each, output))
    ]
    return sorted([*told, *written], key=lambda line: line.at)


def event_lines(event: TaskEvent) -> Iterator[LogLine]:
    """Yield the lines for an event: in Keiji's words if Keiji has some."""
    match event.what:
        case What.RESTARTED:
            messages = [TERMINATED, event.detail]
        case What.DISABLED:
            messages = [DISABLED]
        case What.BUILT | What.ROLLED_BACK | What.ENABLED | What.RESOLVED:
            messages = [event.detail]
    for message in messages:
        yield LogLine(at=event.at, level=INFO, message=message or event.what)


def picked_up(name: str, job: Job) -> str:
    """Return how a task continues, its interval or next moment, as Keiji's log says when a task is picked up."""
    words, definition = (job.definition.schedule or "on demand").split(), job.definition
    match words:
        case ["every", number, "seconds"] if number.isdecimal():
            return f"task {name} interval: {number}"
        case ["on", *_] if job.next_due is not None and definition.schedule is not None:
            moment = on_clocks(definition.time_zone, job.next_due)
            return f"Task Next Execution Time: {moment.strftime('%Y-%m-%d %H:%M:%S %z %Z')}"
        case _:
            return f"task {name} schedule: {' '.join(words)}"


def run_lines(run: Run, output: bytes) -> Iterator[LogLine]:
    """Return each line that is not empty that a run wrote, at its end as in Keiji; while it runs, at its start."""
    at = run.ended or run.started or run.due
    return _lines(run.id, at, output, run.error if run.state is RunState.FAILED else None)


def attempt_lines(attempt: Attempt, output: bytes) -> Iterator[LogLine]:
    """Return the same of an attempt, after which its run was tried again."""
    at = attempt.ended or attempt.started or Moment(0)
    return _lines(attempt.run_id, at, output, attempt.error if attempt.outcome in _FAILURES else None)


def _lines(run_id: str, at: Moment, output: bytes, error: str | None) -> Iterator[LogLine]:
    level = INFO if error is None else ERROR
    for text in output.decode(errors="replace").splitlines():
        if text.strip():
            yield LogLine(at=at, level=level, message=text, run_id=run_id)
    if error:
        yield LogLine(at=at, level=ERROR, message=f"[ task error ]: {error}", run_id=run_id)


def _says_disabled(record: TaskRecord) -> bool:
    """Return whether its last event was a disable."""
    last = [event.what for event in record.events if event.what in (What.DISABLED, What.ENABLED, What.RESOLVED)]
    return bool(last) and last[-1] is What.DISABLED
