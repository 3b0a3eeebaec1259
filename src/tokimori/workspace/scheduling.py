"""The schedule of a task, as its code says it: asked in a process of its own, which has some seconds."""

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

from tokimori.errors import InvalidFile
from tokimori.workspace.source import Source

LONGEST: Final = 60.0
"""Seconds."""
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LANG", "TZ")


class _Answer(Struct, frozen=True):
    schedule: str | None = None
    fault: str | None = None


def schedule_of(source: Source, environ: Mapping[str, str], longest: float = LONGEST) -> str | None:
    """The text of the schedule; None: it runs on demand. Raises `InvalidFile`."""
    if source.schedule_file is None:
        return source.metadata.told.schedule
    with tempfile.TemporaryDirectory(prefix="tokimori-") as folder:
        file = Path(folder, "answer")
        status = _run(source, file, environ, longest)
        try:
            answer = msgspec.json.decode(file.read_bytes(), type=_Answer)
        except (FileNotFoundError, msgspec.DecodeError):
            answer = _Answer(fault=f"it ended its process ({status}) without a schedule")
    if answer.fault is not None:
        raise _faulty(source.schedule_file, answer.fault)
    return answer.schedule


def _run(source: Source, answer: Path, environ: Mapping[str, str], longest: float) -> int:
    own = {name: environ[name] for name in _PASSED_ON if name in environ}
    argv = [sys.executable, "-P", "-m", "tokimori.workspace.evaluate", str(source.schedule_file), str(answer)]
    process = subprocess.Popen(
        argv, cwd=source.folder, env={**own, **source.env}, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
    try:
        return process.wait(longest)
    except subprocess.TimeoutExpired:
        raise _faulty(source.schedule_file, f"it has not answered within {longest:g} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _faulty(file: Path | None, why: str) -> InvalidFile:
    message = f"{file}: the schedule can't be had: {why}"
    return InvalidFile(message, field="schedule", allowed="def schedule(): return every(10).seconds")
