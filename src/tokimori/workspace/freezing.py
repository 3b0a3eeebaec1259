"""A build, made of a task's source: everything is checked before anything is kept."""

import ast
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidFile, InvalidInput, Refused
from tokimori.model.build import Manifest, digest_of, frozen, pieces_of
from tokimori.model.task import BuildRecord, check_build, check_dependencies
from tokimori.schedules.parse import parse_schedule
from tokimori.service.definitions.definitions import definition_from
from tokimori.workspace.source import DESCRIPTION, TaskSource, read_source

LONGEST_LOCKING: Final = 300
"""Seconds that pip gets."""
_BOUND = re.compile(r"([<>])(=?)\s*(\d+(?:\.\d+)*)", re.ASCII)
_SAID: Final = 5
"""Number of the last lines of pip's output in an error."""


class _Archive(Struct, frozen=True):
    hashes: dict[str, str] = field(default_factory=dict)


class _Download(Struct, frozen=True):
    url: str
    archive_info: _Archive | None = None


class _Package(Struct, frozen=True):
    name: str
    version: str


class _Chosen(Struct, frozen=True):
    metadata: _Package
    download_info: _Download
    is_direct: bool = False


class _Report(Struct, frozen=True):
    install: list[_Chosen]


def locked(dependencies: tuple[str, ...], requires_python: str | None = None) -> tuple[str, ...]:
    """Return lines for `pip install --require-hashes`, in order. Raises `InvalidInput` if they exclude each other."""
    check_dependencies(dependencies)
    _check_python(requires_python)
    if not dependencies:
        return ()
    argv = [*_pip(), "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", *dependencies]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_LOCKING,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise _unresolved(dependencies, f"pip has not answered within {LONGEST_LOCKING} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()][-_SAID:]
        raise _unresolved(dependencies, " ".join(lines))
    report = msgspec.json.decode(done.stdout, type=_Report)
    return tuple(sorted(_line(each) for each in report.install))


def locked_for() -> str:
    """Return the Python and the machine of this process."""
    return f"Python {sysconfig.get_python_version()} on {sysconfig.get_platform()}"


def _line(chosen: _Chosen) -> str:
    package, found = chosen.metadata, chosen.download_info
    hashes = {} if found.archive_info is None else found.archive_info.hashes
    if "sha256" not in hashes or (chosen.is_direct and not found.url.startswith("https:")):
        message = f"dependencies: {package.name} comes from {found.url}, where no other node finds it"
        raise InvalidInput(message, field="dependencies", value=package.name, allowed="what an index of packages has")
    named = f"{package.name} @ {found.url}" if chosen.is_direct else f"{package.name}=={package.version}"
    return f"{named} --hash=sha256:{hashes['sha256']}"


def _pip() -> Sequence[str]:
    options = ("--disable-pip-version-check", "--no-input")
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *options]
    if (pip := shutil.which("pip3") or shutil.which("pip")) is not None:
        return [pip, "--python", sys.executable, *options]
    raise Refused("dependencies: pip is needed to lock them, and is missing: install it beside Tokimori", field="pip")


def _check_python(wanted: str | None) -> None:
    """Raise `InvalidFile` if a script wants another Python; bounds such as >=3.11 are understood, no others."""
    own = sys.version_info
    for sign, least, version in _BOUND.findall(wanted or ""):
        numbers = tuple(map(int, version.split(".")))
        here = own[: len(numbers)]
        if (here < numbers) if sign == ">" else (here > numbers) or (here == numbers and not least):
            message = f"requires-python: {wanted} is wanted, and this is {platform.python_version()}"
            raise InvalidFile(message, field="requires-python", value=wanted, allowed="what this Python fits")


def _unresolved(dependencies: Sequence[str], why: str) -> InvalidInput:
    return InvalidInput(
        f"dependencies: {', '.join(dependencies)} can't be had together: {why}",
        field="dependencies",
        value=list(dependencies),
        allowed="packages that pip finds",
    )


LONGEST_SCHEDULING: Final = 60.0
"""Seconds."""
_OF_THE_BUILD: Final = frozenset({"description", "build", "command", "function", "url", "email", "noop"})
"""Terms that stand elsewhere: what a task does is its build."""
_OF_KEIJI: Final = frozenset({"TASK_NAME", DESCRIPTION})
"""Variables with settings of the task, which its function does not need."""
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LANG", "TZ")


class _Answer(Struct, frozen=True):
    schedule: str | None = None
    terms: dict[str, Any] = {}
    fault: str | None = None
    line: int | None = None
    allowed: str | None = None


class ScheduledTerms(NamedTuple):
    """The terms of a task's job that its source says. `schedule` is None if it runs on demand."""

    schedule: str | None
    others: Mapping[str, Any]


def terms_of(source: TaskSource, environ: Mapping[str, str], longest: float = LONGEST_SCHEDULING) -> ScheduledTerms:
    """Return what the source says of its job. Raises `InvalidFile`, with the file and the line."""
    given = source.metadata.ours
    if source.schedule_file is None:
        return _checked(ScheduledTerms(given.schedule, given.terms), source.entry)
    with tempfile.TemporaryDirectory(prefix="tokimori-") as folder:
        file = Path(folder, "answer")
        status = _run(source, source.schedule_file, file, environ, longest)
        try:
            answer = msgspec.json.decode(file.read_bytes(), type=_Answer)
        except (FileNotFoundError, msgspec.DecodeError):
            answer = _Answer(fault=f"it ended its process ({status}) without a schedule")
    if answer.fault is not None:
        raise _faulty(source.schedule_file, answer.fault, answer.line, answer.allowed)
    return _checked(ScheduledTerms(answer.schedule, {**given.terms, **answer.terms}), source.schedule_file)


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
    message = f"{shown}{'' if line is None else f' line {line}'}: {why.removesuffix('.')}. Allowed: {allowed}."
    return InvalidFile(message, field="schedule", allowed=allowed)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A build as it is before it is kept: what is recorded of it, and its content."""

    record: BuildRecord
    content: bytes


def freeze(tasks_dir: Path, name: str, environ: Mapping[str, str]) -> Frozen:
    """Return the build of a task from its source. Nothing is written. Raises `InvalidInput`, `NotFound`, `Refused`."""
    source = read_source(tasks_dir, name)
    terms = terms_of(source, environ)
    content = content_of_source(source)
    record = BuildRecord(
        digest=digest_of(content),
        size=len(content),
        pieces=len(pieces_of(content)),
        schedule=terms.schedule,
        terms=dict(terms.others),
        description=source.description,
        dependencies=source.dependencies,
    )
    check_build(record)
    return Frozen(record, content)


def content_of_source(source: TaskSource) -> bytes:
    """Return the file of the build, with its dependencies locked."""
    lock = locked(source.dependencies, source.metadata.requires_python)
    variables = tuple(sorted(source.env.keys() - _OF_KEIJI))
    manifest = Manifest(task=source.name, lock=lock, locked_for=locked_for() if lock else "", variables=variables)
    return frozen(source.files, manifest)
