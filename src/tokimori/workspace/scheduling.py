"""The schedule of a task, as its code says it: asked in a process of its own, which has some seconds."""

import ast
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tokimori.errors import InvalidFile, InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.workspace.source import Source

LONGEST: Final = 60.0
"""Seconds."""
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LANG", "TZ")


class _Answer(Struct, frozen=True):
    schedule: str | None = None
    fault: str | None = None
    line: int | None = None
    allowed: str | None = None


def schedule_of(source: Source, environ: Mapping[str, str], longest: float = LONGEST) -> str | None:
    """The text of the schedule; None: it runs on demand. Raises `InvalidFile`, with the file and the line."""
    if source.schedule_file is None:
        return _checked(source.metadata.told.schedule, source.entry)
    with tempfile.TemporaryDirectory(prefix="tokimori-") as folder:
        file = Path(folder, "answer")
        status = _run(source, source.schedule_file, file, environ, longest)
        try:
            answer = msgspec.json.decode(file.read_bytes(), type=_Answer)
        except (FileNotFoundError, msgspec.DecodeError):
            answer = _Answer(fault=f"it ended its process ({status}) without a schedule")
    if answer.fault is not None:
        raise _faulty(source.schedule_file, answer.fault, answer.line, answer.allowed)
    return _checked(answer.schedule, source.schedule_file)


def _checked(text: str | None, file: Path) -> str | None:
    """The text, if it is a schedule in some time zone."""
    try:
        if text is not None:
            parse_schedule(text)
    except InvalidSchedule as fault:
        raise _faulty(file, fault.message.removeprefix(f"{fault.field}: "), _line_in(file), fault.allowed) from None
    return text


def _line_in(file: Path) -> int | None:
    """The line that says the schedule: of its value, or of what the function returns."""
    text = file.read_text(encoding="utf-8-sig")
    for number, line in enumerate(text.splitlines(), 1):
        if line.replace(" ", "").startswith("#schedule="):
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


def _run(source: Source, file: Path, answer: Path, environ: Mapping[str, str], longest: float) -> int:
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
