"""The schedule of a task, and other terms, as its code says them: asked in a process of its own, for some seconds."""

import ast
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from tokimori.errors import InvalidFile, InvalidInput
from tokimori.schedules.parse import parse_schedule
from tokimori.service.definitions import definition_from
from tokimori.workspace.source import TaskSource

LONGEST: Final = 60.0
"""Seconds."""
_OF_THE_BUILD: Final = frozenset({"description", "build", "command", "function", "url", "email", "noop"})
"""Terms that stand elsewhere: what a task does is its build."""
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LANG", "TZ")


class _Answer(Struct, frozen=True):
    schedule: str | None = None
    terms: dict[str, Any] = {}
    fault: str | None = None
    line: int | None = None
    allowed: str | None = None


class ScheduledTerms(NamedTuple):
    """The terms of a task's job that its source says. `schedule` is None where it runs on demand."""

    schedule: str | None
    others: Mapping[str, Any]


def terms_of(source: TaskSource, environ: Mapping[str, str], longest: float = LONGEST) -> ScheduledTerms:
    """Return what the source says of its job. Raises `InvalidFile`, with the file and the line."""
    told = source.metadata.told
    if source.schedule_file is None:
        return _checked(ScheduledTerms(told.schedule, told.terms), source.entry)
    with tempfile.TemporaryDirectory(prefix="tokimori-") as folder:
        file = Path(folder, "answer")
        status = _run(source, source.schedule_file, file, environ, longest)
        try:
            answer = msgspec.json.decode(file.read_bytes(), type=_Answer)
        except (FileNotFoundError, msgspec.DecodeError):
            answer = _Answer(fault=f"it ended its process ({status}) without a schedule")
    if answer.fault is not None:
        raise _faulty(source.schedule_file, answer.fault, answer.line, answer.allowed)
    return _checked(ScheduledTerms(answer.schedule, {**told.terms, **answer.terms}), source.schedule_file)


def _checked(terms: ScheduledTerms, file: Path) -> ScheduledTerms:
    """Return the terms, if the schedule is one in some time zone, and the others are those of a job."""
    field = next((name for name in terms.others if name in _OF_THE_BUILD), "schedule")
    if field != "schedule":
        raise _faulty(file, f"{field!r} is said by the build itself", _line_in(file, field), "other terms of a job")
    try:
        if terms.schedule is not None:
            parse_schedule(terms.schedule)
        for field, value in terms.others.items():
            definition_from({field: value, "noop": True})
    except InvalidInput as fault:
        why = fault.message.removeprefix("schedule: ").removeprefix("time: ").removeprefix("every: ")
        raise _faulty(file, why, _line_in(file, field), fault.allowed) from None
    return terms


def _line_in(file: Path, field: str) -> int | None:
    """Return the line that says a term: the comment's, else of the schedule, or of what its function returns."""
    text = file.read_text(encoding="utf-8-sig")
    for number, line in enumerate(text.splitlines(), 1):
        if line.replace(" ", "").startswith((f"#{field}=", f"#[tool.tokimori.{field}")):
            return number
    found: int | None = None
    for each in ast.walk(ast.parse(text)) if file.suffix == ".py" else ():
        match each:
            case ast.FunctionDef(name="schedule"):
                found = max((one.lineno for one in ast.walk(each) if isinstance(one, ast.Return)), default=each.lineno)
            case ast.Assign(targets=[ast.Name(id="schedule")]):
                found = each.lineno
            case _:
                pass
    return found


def _run(source: TaskSource, file: Path, answer: Path, environ: Mapping[str, str], longest: float) -> int:
    own = {name: environ[name] for name in _PASSED_ON if name in environ}
    argv = [sys.executable, "-P", "-m", "tokimori.workspace.evaluate", str(file), str(answer)]
    process = subprocess.Popen(
        argv, cwd=source.folder, env={**own, **source.env}, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
    try:
        return process.wait(longest)
    except subprocess.TimeoutExpired:
        raise _faulty(file, f"it has not answered within {longest:g} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _faulty(file: Path, why: str, line: int | None = None, allowed: str | None = None) -> InvalidFile:
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    allowed = allowed or "def schedule(): return every(10).seconds"
    said = f"{shown}{'' if line is None else f' line {line}'}: {why.removesuffix('.')}. Allowed: {allowed}."
    return InvalidFile(said, field="schedule", allowed=allowed)
