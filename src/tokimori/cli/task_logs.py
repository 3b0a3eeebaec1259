"""`tokimori task logs`"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.editor import editor_options, open_in
from tokimori.cli.job_printing import coming
from tokimori.cli.output import announce, print_json, print_lines, print_notice
from tokimori.cli.session import in_service, load
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.schedules.zones import on_clocks

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.model.task import LogLine
    from tokimori.service.service import Service
    from tokimori.service.tasks.tasks import TaskState


_NOT_KNOWN = "N/A"
_UNITS = {"second": "seconds", "minute": "minutes", "hour": "hours"}
"""Intervals that Keiji knows."""
_PLAIN = frozenset("-._/:@+,;%()[]{}!?#&*^~|<>$")


def keiji_lines(state: "TaskState", state_dir: Path) -> list[str]:
    """Return `TaskModel:` and its sixteen lines, in Keiji's order and with its names: see docs/coming-from/keiji.md."""
    record, job = state.details.record, state.details.job
    zone = "UTC" if job is None else job.definition.time_zone
    word, kind = keiji_schedule(record.build.schedule)
    is_enabled = job is not None and job.state.value == "enabled"
    is_parked = job is not None and job.state.value == "parked"
    last = state.running or state.ended
    fields = {
        "ID": 0 if job is None else job.incarnation,
        "TaskId": record.id,
        "Name": record.name,
        "Description": record.build.description or "",
        "Schedule": word,
        "LastExecutionTime": _time(None if last is None else last.started, zone),
        "NextExecutionTime": _time(None if job is None else coming(job), zone),
        "LogPath": log_file(state_dir, record.name),
        "Slug": record.name.lower(),
        "Type": kind,
        "Executable": state_dir / "builds" / f"{record.current}.pyz",
        "IsRunning": _word(is_enabled and state.is_served),
        "IsQueued": _word(state.waiting is not None and state.running is None),
        "IsError": _word(is_parked),
        "IsDisabled": _word(job is not None and job.state.value == "paused"),
        "ErrorTxt": (state.ended.error or "") if is_parked and state.ended is not None else "",
    }
    return ["TaskModel:", *(f"{name}: {' '.join(str(value).splitlines())}" for name, value in fields.items())]


def keiji_schedule(schedule: str | None) -> tuple[str, str]:
    """Return the schedule in Keiji's words, and its type; one that Keiji has no words for is as it was typed."""
    words = (schedule or "on demand").split()
    match words:
        case ["every", number, unit] if number.isdecimal() and unit.removesuffix("s") in _UNITS:
            return f"units:{_UNITS[unit.removesuffix('s')]},interval:{number}", "HMS"
        case ["every", unit] if unit in _UNITS:
            return f"units:{_UNITS[unit]},interval:1", "HMS"
        case ["on", day, "at", time]:
            return f"day:{day.capitalize()},time:{time}", "DayTime"
        case _:
            return " ".join(words), "Other"


def log_file(state_dir: Path, name: str) -> Path:
    """Return the file into which `task logs` writes the log for an editor."""
    return state_dir / "logs" / "tasks" / name / f"{name}.log"


def log_text(line: "LogLine", zone: str) -> str:
    """Return the line as Keiji writes it."""
    return log_line(line.at, line.level, line.message, zone)


def log_line(at: Moment, level: str, message: str, zone: str) -> str:
    """Return the line as Keiji writes it: `time=… level=… msg=…`, with quotes if the message is no single word."""
    return f"time={on_clocks(zone, at).isoformat('T', 'milliseconds')} level={level} msg={_quoted(message)}"


def _quoted(message: str) -> str:
    if message and all(char.isalnum() or char in _PLAIN for char in message):
        return message
    return json.dumps(message, ensure_ascii=False)


def _time(at: Moment | None, zone: str) -> str:
    return _NOT_KNOWN if at is None else on_clocks(zone, at).replace(microsecond=0).isoformat()


def _word(value: bool) -> str:
    return str(value).lower()


PAUSE = 0.5
"""Seconds between two looks at what is new."""
MOST_FOLLOWED = 20
"""Number of the newest runs looked at each time."""


@click.command(cls=Command)
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many at most.")
@editor_options
def logs(name: str, follow: bool, lines: int, editor: str | None) -> None:
    """Print the last lines of a task's log: the output of its runs, and its changes.

    Each line has its time.
    """
    from tokimori.service.views.tasks import LogLine as LogLineView

    if follow and (editor is not None or options().as_json):
        message = "follow: it prints lines for people, and opens no editor"
        raise InvalidInput(message, field="follow", allowed="neither --json nor an editor beside it")

    async def act(service: "Service") -> "tuple[str, Sequence[LogLine]]":
        zone = await _zone_of(service, name)
        if follow:
            await _follow(service, name, lines, zone)
        return zone, await service.tasks.logs(name, lines)

    try:
        zone, found = in_service(act)
    except KeyboardInterrupt:
        return
    if editor is not None:
        _open(name, editor, [log_text(line, zone) for line in found])
    elif options().as_json:
        print_json([LogLineView.made(line) for line in found])
    else:
        print_lines(*(log_text(line, zone) for line in found))
        if unknown := len([line for line in found if not line.exact]):
            print_notice(
                f"of {unknown} lines nobody knows when they were written: they show the start of their attempt"
            )


async def _zone_of(service: "Service", name: str) -> str:
    job = (await service.tasks.get(name)).job
    return "UTC" if job is None else job.definition.time_zone


async def _follow(service: "Service", name: str, lines: int, zone: str) -> None:
    """Print the last lines, and then what comes, for ever."""
    followed = _Followed(service, name, zone)
    await followed.begin()
    for line in await service.tasks.logs(name, lines):
        announce(log_text(line, zone))
    while True:
        await asyncio.sleep(PAUSE)
        await followed.look()


class _Followed:
    """Position of a followed log: the next attempt of each run, the place in its output, and the last event of the
    task.

    Bytes of a live attempt wait for the end of their line. Ended attempts are not read again.
    """

    def __init__(self, service: "Service", name: str, zone: str) -> None:
        self._service = service
        self._name = name
        self._zone = zone
        self._events = 0
        self._next: dict[str, tuple[int, int]] = {}

    async def begin(self) -> None:
        """Count present lines as printed."""
        from tokimori.model.transitions import RunState

        self._events = await self._last_event()
        for run in await self._runs():
            if run.state is RunState.RUNNING:
                output = await self._service.runs.output(run.id, run.attempt)
                self._next[run.id] = run.attempt, 0 if output is None else output.size
            else:
                self._next[run.id] = run.attempt + 1, 0

    async def look(self) -> None:
        """Print new lines."""
        from tokimori.model.task import event_lines

        record = (await self._service.tasks.get(self._name)).record
        for event in record.events:
            if event.at > self._events:
                for line in event_lines(event):
                    announce(log_text(line, self._zone))
        self._events = record.events[-1].at if record.events else self._events
        runs = await self._runs()
        self._next = {run.id: self._next.get(run.id, (1, 0)) for run in runs}
        for run in reversed(runs):
            if self._next[run.id][0] <= run.attempt:
                await self._print(run)

    async def _print(self, run: "Run") -> None:
        from tokimori.model.task import tried_lines
        from tokimori.model.transitions import RunState
        from tokimori.service.tasks.outputs import timed_lines

        for tried in (each.attempt for each in (await self._service.runs.get(run.id)).attempts):
            first, position = self._next[run.id]
            if tried.number < first:
                continue
            output = await self._service.runs.output(run.id, tried.number)
            begin, is_over = position if tried.number == first else 0, tried.outcome != RunState.RUNNING
            lines, end = ([], begin) if output is None else timed_lines(output, begin, unfinished=is_over)
            for line in tried_lines(tried, lines, over=is_over):
                announce(log_text(line, self._zone))
            self._next[run.id] = (tried.number + 1, 0) if is_over else (tried.number, end)

    async def _runs(self) -> "Sequence[Run]":
        from tokimori.model.run import LONGEST_ERROR

        found = await self._service.runs.list(job_id=self._name, limit=MOST_FOLLOWED, longest=LONGEST_ERROR)
        return found.runs

    async def _last_event(self) -> int:
        events = (await self._service.tasks.get(self._name)).record.events
        return events[-1].at if events else 0


def _open(name: str, editor: str, lines: Sequence[str]) -> None:
    """Write the log to its file, and open that. Raises `Refused` if it can't be opened."""
    from tokimori.client.opening import make_state_dir

    file = log_file(load(may_ask_elsewhere=True).settings.state_dir, name)
    make_state_dir(file.parent)
    file.write_text("".join(f"{line}\n" for line in lines))
    open_in(editor, file)
