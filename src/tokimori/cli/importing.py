"""What all imports share: every fault of every file first, then all jobs at once or none."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from tokimori.cli.command import options
from tokimori.cli.output import local, print_json, print_lines, print_notice, some_of
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import print_table
from tokimori.clock import Moment, SystemClock, format_moment
from tokimori.errors import InvalidFile
from tokimori.model.job import Definition, schedule_of
from tokimori.service.definitions import fields_of
from tokimori.service.service import Service

STDIN = "-"

Jobs = Sequence[tuple[str, Definition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """The result of an import. `differing`: jobs of `unchanged` that differ from the files, with the fields."""

    added: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    differing: dict[str, tuple[str, ...]]

    def word(self, job_id: str) -> str:
        """The result for one job."""
        if job_id in self.differing:
            return "kept"
        return "added" if job_id in self.added else "unchanged" if job_id in self.unchanged else "not imported"


# Reading


def text_of(file: str) -> str:
    """The text of a file, or of standard input; bytes that are not UTF-8 as `surrogateescape` decodes them."""
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as fault:
        raise InvalidFile(f"{file}: it can't be read: {fault.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def name_of(file: str) -> str:
    """The name of the file in messages."""
    return "stdin" if file == STDIN else file


def read_all(readers: Sequence[Callable[[], Jobs]]) -> Jobs:
    """The jobs of all files. Raises `InvalidFile` with the faults of all files."""
    jobs: list[tuple[str, Definition]] = []
    faults: list[str] = []
    for read in readers:
        try:
            jobs += read()
        except InvalidFile as fault:
            faults += fault.message.splitlines()
    faults += _clashes(jobs)
    if faults:
        raise InvalidFile("\n".join([*some_of(faults, "more faults"), "nothing was imported"]), field="file")
    return jobs


def _clashes(jobs: Jobs) -> Iterator[str]:
    """Two jobs with one id: of two files of one name, or written twice."""
    places: dict[str, str | None] = {}
    for job_id, definition in jobs:
        if job_id in places:
            yield f"{definition.description}: its id would be {job_id}, like that of {places[job_id]}; rename one"
        places.setdefault(job_id, definition.description)


# Importing


def finish(jobs: Jobs, notes: Sequence[str], *, dry_run: bool, paused_because: Mapping[str, str] | None = None) -> None:
    """Import the jobs, unless it is a dry run, and print the result for each."""
    done = (
        Import(differing={})
        if dry_run
        else in_service(lambda service: _import(service, jobs, paused_because), Absent.MADE)
    )
    if options().as_json:
        print_json(_as_json(jobs, done))
        return
    _print(jobs, done)
    for note in notes:
        print_notice(f"note: {note}")


async def _import(service: Service, jobs: Jobs, paused_because: Mapping[str, str] | None) -> Import:
    imported = await service.import_all(jobs, paused_because)
    differing = {}
    for job_id, definition in jobs:
        if job_id in imported.unchanged:
            stored = (await service.get(job_id)).definition
            if fields := _differences(stored, definition):
                differing[job_id] = fields
    return Import(added=imported.added, unchanged=imported.unchanged, differing=differing)


def _differences(stored: Definition, read: Definition) -> tuple[str, ...]:
    """The fields in which they differ, without the description, which names the line of the job: that may change."""
    old, new = (fields_of(replace(definition, description=None)) for definition in (stored, read))
    return tuple(name for name in {**old, **new} if old.get(name) != new.get(name))


# Printing


def _next_moment(job_id: str, definition: Definition) -> Moment | None:
    now = SystemClock().now()
    return schedule_of(definition, now, job_id).next_after(now)


def _as_json(jobs: Jobs, done: Import) -> dict[str, object]:
    return {
        "added": done.added,
        "unchanged": done.unchanged,
        "differing": done.differing,
        "jobs": [
            {"id": job_id, "next_time": _time(_next_moment(job_id, definition)), **fields_of(definition)}
            for job_id, definition in jobs
        ],
    }


def _time(moment: Moment | None) -> str | None:
    return None if moment is None else format_moment(moment)


def _print(jobs: Jobs, done: Import) -> None:
    rows = []
    for job_id, definition in jobs:
        fields = fields_of(definition)
        upcoming = local(_next_moment(job_id, definition), definition.time_zone)
        does = _command(fields.get("command") or fields.get("email") or "")
        rows.append((job_id, done.word(job_id), definition.schedule, upcoming, definition.owner, does))
    if rows:
        print_table(("ID", "RESULT", "SCHEDULE", "NEXT", "OWNER", "COMMAND"), rows)
    print_lines(f"{len(jobs)} jobs read, {len(done.added)} added, {len(done.unchanged)} unchanged")
    for job_id, names in done.differing.items():
        print_notice(f"warning: {job_id} exists with another {', '.join(names)}; it was not changed")


def _command(command: object) -> str:
    return shlex.join(command) if isinstance(command, list | tuple) else str(command)
