"""Tasks as Keiji shows them: the sixteen lines of a record, and the lines of a log."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tokimori.cli.job_printing import coming
from tokimori.clock import Moment
from tokimori.schedules.zones import on_clocks

if TYPE_CHECKING:
    from tokimori.model.task import LogLine
    from tokimori.service.tasks import TaskState

_NOT_KNOWN = "N/A"
_UNITS = {"second": "seconds", "minute": "minutes", "hour": "hours"}
"""Intervals that Keiji knows."""
_PLAIN = frozenset("-._/:@+,;%()[]{}!?#&*^~|<>$")


def keiji_lines(state: "TaskState", state_dir: Path) -> list[str]:
    """`TaskModel:` and its sixteen lines, in Keiji's order and with its names: see docs/coming-from/keiji.md."""
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
    return ["TaskModel:", *(f"{name}: {_one_line(value)}" for name, value in fields.items())]


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
    """Return the line as Keiji writes it: `time=… level=… msg=…`, with quotes where the message is no single word."""
    return f"time={on_clocks(zone, at).isoformat('T', 'milliseconds')} level={level} msg={_quoted(message)}"


def _quoted(message: str) -> str:
    if message and all(char.isalnum() or char in _PLAIN for char in message):
        return message
    return json.dumps(message, ensure_ascii=False)


def _time(at: Moment | None, zone: str) -> str:
    return _NOT_KNOWN if at is None else on_clocks(zone, at).replace(microsecond=0).isoformat()


def _one_line(value: object) -> str:
    return " ".join(str(value).splitlines())


def _word(value: bool) -> str:
    return str(value).lower()
