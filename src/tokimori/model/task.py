"""Tasks: jobs whose code the store keeps, build by build. Records and log of a task, beside its job and builds."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput, NotFound
from tokimori.model.build import LARGEST, MOST_PIECES, check_digest
from tokimori.model.document import texts_of
from tokimori.model.ids import Incarnation
from tokimori.model.job import Job, JobState
from tokimori.model.run import Attempt, Run
from tokimori.model.transitions import RunState
from tokimori.model.words import check_text
from tokimori.schedules.zones import on_clocks

MOST_BUILDS: Final = 20
"""Builds of a task that are kept: the newest ones and the current one."""
MOST_EVENTS: Final = 100
MOST_DEPENDENCIES: Final = 50
LONGEST_DEPENDENCY: Final = 200
"""Characters."""
LONGEST_DESCRIPTION: Final = 1000


class BuildRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Build of a task: its name, its settings for the job, its time and its author."""

    digest: str
    size: int
    pieces: int
    schedule: str | None = None
    terms: dict[str, Any] = {}
    description: str | None = None
    dependencies: tuple[str, ...] = ()
    at: Moment = Moment(0)
    by: str | None = None


class What(StrEnum):
    """Kinds of events of a task."""

    BUILT = "built"
    RESTARTED = "restarted"
    ROLLED_BACK = "rolled back"
    DISABLED = "disabled"
    ENABLED = "enabled"
    RESOLVED = "resolved"


class TaskEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Event of a task, and its author; `detail` is for the task's log."""

    at: Moment
    what: What
    by: str | None = None
    detail: str | None = None


class TaskRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record of a task. `builds` are the newest first, `current` is the digest of the running one.

    `id` stays for the life of the task. `incarnation` is that of the job that runs its builds: a later job of that name
    is no task.
    """

    name: str
    id: str
    builds: tuple[BuildRecord, ...] = ()
    current: str | None = None
    events: tuple[TaskEvent, ...] = ()
    incarnation: Incarnation | None = None

    @property
    def build(self) -> BuildRecord:
        """Return the current build."""
        return next(each for each in self.builds if each.digest == self.current)


encode_task, decode_task = texts_of(TaskRecord)


def check_build(build: BuildRecord) -> None:
    """Refuse a build that no store could keep. Raises `InvalidInput`."""
    check_digest(build.digest)
    for name, value, most in (("size", build.size, LARGEST), ("pieces", build.pieces, MOST_PIECES)):
        if not 1 <= value <= most:
            raise InvalidInput(f"{name}: {value} is out of range", field=name, value=value, allowed=f"1..{most}")
    check_text("description", build.description or "")
    if len(build.description or "") > LONGEST_DESCRIPTION:
        allowed = f"at most {LONGEST_DESCRIPTION} characters"
        raise InvalidInput("description: it is too long", field="description", allowed=allowed)
    check_dependencies(build.dependencies)


def check_dependencies(dependencies: tuple[str, ...]) -> None:
    """Check the number and the texts of dependencies. Raises `InvalidInput`."""
    allowed = f"at most {MOST_DEPENDENCIES}, each one line of at most {LONGEST_DEPENDENCY} characters, no option"
    if len(dependencies) > MOST_DEPENDENCIES:
        value = len(dependencies)
        raise InvalidInput(f"dependencies: {value} are too many", field="dependencies", value=value, allowed=allowed)
    for text in dependencies:
        check_text("dependencies", text)
        is_option = text.lstrip().startswith("-")
        if is_option or not text.strip() or "\n" in text or len(text) > LONGEST_DEPENDENCY:
            message = f"dependencies: {text!r} is no dependency"
            raise InvalidInput(message, field="dependencies", value=text, allowed=allowed)


def with_build(record: TaskRecord, build: BuildRecord, incarnation: Incarnation) -> TaskRecord:
    """Return the record after a build, which is now current; the oldest one may be dropped. A repeated one moves up."""
    others = [each for each in record.builds if each.digest != build.digest]
    return replace(record, builds=(build, *others[: MOST_BUILDS - 1]), current=build.digest, incarnation=incarnation)


def with_current(record: TaskRecord, build: BuildRecord, incarnation: Incarnation) -> TaskRecord:
    """Return the record with an earlier build as the current one. Raises `NotFound` if it was dropped meanwhile."""
    return replace(record, current=earlier_build(record, build.digest).digest, incarnation=incarnation)


def with_event(record: TaskRecord, event: TaskEvent) -> TaskRecord:
    """Return the record with one more event; the oldest ones are dropped."""
    return replace(record, events=(*record.events, event)[-MOST_EVENTS:])


def earlier_build(record: TaskRecord, wanted: str | None) -> BuildRecord:
    """Return the build whose digest begins with `wanted`; None: the one made before the current one.

    Raises `NotFound`.
    """
    digests = [each.digest for each in record.builds]
    if wanted is None:
        place = digests.index(str(record.current)) + 1
        found = record.builds[place : place + 1]
        missing = f"There is no build of {record.name} before the one that runs."
    else:
        found = tuple(each for each in record.builds if wanted and each.digest.startswith(wanted))
        several = f"{len(found)} builds of {record.name} start with {wanted!r}: give more characters."
        missing = several if found else f"No build of {record.name} starts with {wanted!r}."
    if len(found) != 1:
        raise NotFound(missing, field="build", value=wanted, allowed=f"See `tokimori task builds {record.name}`.")
    return found[0]


LARGEST_ENV: Final = 64 * 1024
"""Bytes."""
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)\Z", re.ASCII)


def env_files_of(name: str) -> tuple[PurePath, PurePath]:
    """Return the files that may hold a task's variables: in its folder, and beside its file."""
    return PurePath(name, ".env"), PurePath(f"{name}.env")


def read_env(content: bytes, where: str) -> dict[str, str]:
    """Return the variables, without empty lines, comments (#) and quotes around values.

    Raises `InvalidFile`, with the line if there is one.
    """
    if len(content) > LARGEST_ENV:
        raise InvalidFile(f"{where}: it is too large", field="env", allowed=f"at most {LARGEST_ENV} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidFile(f"{where}: is not UTF-8 text", field="env", allowed="UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(stripped)
        if match is None or "\0" in stripped:
            raise InvalidFile(
                f"{where}:{number}: this is no variable",
                field="env",
                value=stripped.partition("=")[0],
                allowed="NAME=value",
            )
        found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


INFO: Final = "INFO"
ERROR: Final = "ERROR"
_FAILURES: Final = frozenset({"failed", "timed_out", "lost"})
DISABLED: Final = "task disabled, exiting..."
TERMINATED: Final = "task terminated, exiting..."


class LogLine(Struct, frozen=True, kw_only=True):
    """Line of a task's log. `run_id` is that of the run that wrote it; None: the line is about the task itself.

    Not `exact`: its time is unknown, and `at` is the start of the attempt.
    """

    at: Moment
    level: str
    message: str
    run_id: str | None = None
    exact: bool = True


def log_lines(
    record: TaskRecord, job: Job | None, tries: Sequence[tuple[Run | Attempt, Sequence[tuple[Moment | None, str]]]]
) -> list[LogLine]:
    """Return all lines by time: of the task's events, and of these attempts with their outputs and times."""
    found = [line for event in record.events for line in event_lines(event)]
    if job is not None and job.state is JobState.PAUSED and not _says_disabled(record):
        found.append(LogLine(at=job.updated, level=INFO, message=DISABLED))
    written = [line for tried, lines in tries for line in tried_lines(tried, lines)]
    return sorted([*found, *written], key=lambda line: line.at)


def event_lines(event: TaskEvent) -> Iterator[LogLine]:
    """Yield the lines for an event, in Keiji's words if it has some."""
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
    """Return the interval or the next moment of a task, in the words of Keiji's log when it picks up a task."""
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
    """Return when a line came, within the time of its attempt; if unknown, the start of the attempt."""
    started = tried.started or (tried.due if isinstance(tried, Run) else None) or tried.ended or Moment(0)
    return max(started, started if at is None else at if tried.ended is None else min(at, tried.ended))


def tried_lines(
    tried: Run | Attempt, written: Iterable[tuple[Moment | None, str]], *, over: bool = True
) -> list[LogLine]:
    """Return each line of an attempt that is not empty, and, if it is `over`, its error behind them.

    A run has the facts of its newest attempt.
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
