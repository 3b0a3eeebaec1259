"""The log of a task, in the lines of Keiji: what its runs wrote, and what happened to it, by time. Pure."""

from collections.abc import Iterable, Iterator, Sequence
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
    """A line of a task's log. `run_id` is that of the run that wrote it; None: the line tells of the task itself.

    Not `exact`: nobody knows when the run wrote it, and `at` is the start of the attempt.
    """

    at: Moment
    level: str
    message: str
    run_id: str | None = None
    exact: bool = True


def log_lines(
    record: TaskRecord, job: Job | None, tries: Sequence[tuple[Run | Attempt, Sequence[tuple[Moment | None, str]]]]
) -> list[LogLine]:
    """Return all lines by time: of what happened to the task, and of these attempts with what each wrote and when."""
    told = [line for event in record.events for line in event_lines(event)]
    if job is not None and job.state is JobState.PAUSED and not _says_disabled(record):
        told.append(LogLine(at=job.updated, level=INFO, message=DISABLED))
    written = [line for tried, lines in tries for line in tried_lines(tried, lines)]
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


def within(tried: Run | Attempt, at: Moment | None) -> Moment:
    """Return when a line came, which is while its attempt ran; where nobody knows, the start of the attempt."""
    started = tried.started or (tried.due if isinstance(tried, Run) else None) or tried.ended or Moment(0)
    return max(started, started if at is None else at if tried.ended is None else min(at, tried.ended))


def tried_lines(
    tried: Run | Attempt, written: Iterable[tuple[Moment | None, str]], *, over: bool = True
) -> list[LogLine]:
    """Return each line that is not empty that an attempt wrote, and behind them, if it is `over`, its error.

    A run tells of its newest attempt.
    """
    if isinstance(tried, Run):
        run_id, error = tried.id, tried.error if tried.state is RunState.FAILED else None
    else:
        run_id, error = tried.run_id, tried.error if tried.outcome in _FAILURES else None
    level = ERROR if over and error is not None else INFO
    lines = [
        LogLine(at=within(tried, at), level=level, message=text, run_id=run_id, exact=at is not None)
        for at, text in written
        if text.strip()
    ]
    if over and error:
        ended = tried.ended or within(tried, None)
        lines.append(LogLine(at=ended, level=ERROR, message=f"[ task error ]: {error}", run_id=run_id))
    return lines


def _says_disabled(record: TaskRecord) -> bool:
    """Return whether its last event was a disable."""
    last = [event.what for event in record.events if event.what in (What.DISABLED, What.ENABLED, What.RESOLVED)]
    return bool(last) and last[-1] is What.DISABLED
