"""Entries of other schedulers as jobs of a store: all are read first, then they come in, page by page."""

import dataclasses
import re
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tokimori.errors import InvalidFile, NotFound
from tokimori.formats.format import ImportRequest, Pages
from tokimori.model.job import Definition
from tokimori.model.words import json_fault
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.definitions.differences import FieldChange, differences
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.translators.entries import Entry, Inactive, Moved, Refused, Unread, without_duplicates

MOST_FAULTS = 20
"""Faults that HTTP shows; all others are counted."""
Changes = tuple[FieldChange, ...]


@dataclass(slots=True)
class ImportTally:
    """Outcome of an import so far. `kept`: jobs that exist and differ, and stay as they are."""

    read: int = 0
    added: list[str] = field(default_factory=list)
    changed: dict[str, Changes] = field(default_factory=dict)
    kept: dict[str, Changes] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    left_out: list[Inactive] = field(default_factory=list)
    jobs: list[Moved] = field(default_factory=list)

    def count(self, job: Moved, changes: Changes | None, *, update: bool) -> None:
        """Count a job; `changes`: it exists, and differs in these fields."""
        self.jobs.append(job)
        if changes is None:
            self.added.append(job.job_id)
        elif not changes:
            self.unchanged.append(job.job_id)
        else:
            (self.changed if update else self.kept)[job.job_id] = changes


def first_of(lines: Sequence[str], more: str) -> Sequence[str]:
    """Return the first lines, and how many `more` there are."""
    return [*lines[:MOST_FAULTS], *([f"… and {len(lines) - MOST_FAULTS} {more}"] if len(lines) > MOST_FAULTS else [])]


Families = Mapping[str, Sequence[Moved]]
"""Lines of a crontab by their program, on whichever pages they are."""
Some = Callable[[Sequence[str], str], Sequence[str]]


async def check(pages: Pages, request: ImportRequest, some: Some) -> Families:
    """Read all entries, and change nothing. Raises `InvalidFile` with (some of) those that are refused."""
    tally, taken, found = ImportTally(), dict[str, str](), dict[str, list[Moved]]()
    async for page in pages():
        for family, lines in families_in(_jobs_of(page, taken, tally)).items():
            found.setdefault(family, []).extend(lines)
    check_refused(tally.refused, request, "--skip-refused", some)
    return found


def families_in(entries: Iterable[Entry]) -> Families:
    """Return the lines among the entries whose number depends on the jobs that there are, by their family."""
    found = dict[str, list[Moved]]()
    for each in entries:
        if isinstance(each, Moved) and each.family is not None:
            found.setdefault(each.family, []).append(each)
    return found


def check_refused(refused: Sequence[Refused], request: ImportRequest, option: str, some: Some = first_of) -> None:
    """Raise `InvalidFile` with the entries that are refused, unless they are to be skipped."""
    if refused and not request.skip_refused:
        faults = some([f"{place}: {why}" for place, why in refused], "more faults")
        last = f"nothing was imported; {option} goes on without these"
        raise InvalidFile("\n".join([*faults, last]), field="source")


async def bring_in(
    service: Service,
    pages: Pages,
    families: Families,
    request: ImportRequest,
    report: Callable[[Moved, Changes | None], None],
) -> ImportTally:
    """Add the jobs, unless it is a dry run, and change those that exist and differ if that is wanted."""
    tally, taken = ImportTally(), dict[str, str]()
    placed = await _placed(service, families)
    async for page in pages():
        named = ((placed.get(job.job_id, job.job_id), job) for job in _jobs_of(page, taken, tally))
        jobs = {job_id: dataclasses.replace(job, job_id=job_id) for job_id, job in named}
        known = await _known(service, jobs.values())
        if (new := [job for job_id, job in jobs.items() if job_id not in known]) and not request.dry_run:
            known |= await _added(service, new)
        for job_id, job in jobs.items():
            changes = known.get(job_id)
            if changes and request.update and not request.dry_run:
                await service.jobs.edit(job_id, dict(fields_of(job.definition)), whole=True)
            tally.count(job, changes, update=request.update)
            report(job, changes)
    return tally


def _jobs_of(page: Iterable[Entry], taken: dict[str, str], tally: ImportTally) -> Iterator[Moved]:
    """Return the jobs of a page, and count the rest. `taken` knows where each id was read."""
    for entry in without_duplicates(page, taken):
        tally.read += not isinstance(entry, Unread)
        if isinstance(entry, Moved):
            yield entry
        elif isinstance(entry, Refused):
            tally.refused.append(entry)
        else:
            tally.left_out.append(entry)


async def _added(service: Service, new: Sequence[Moved]) -> dict[str, Changes]:
    """Add jobs in one transaction, and return those that somebody else has added meanwhile."""
    done = await service.jobs.import_all(
        [(job.job_id, job.definition) for job in new],
        starts={job.job_id: job.start for job in new},
        runs_remaining={job.job_id: job.runs_remaining for job in new if job.runs_remaining is not None},
    )
    return await _known(service, [job for job in new if job.job_id in done.unchanged])


async def _known(service: Service, jobs: Iterable[Moved]) -> dict[str, Changes]:
    """Return the jobs that exist already, with the fields in which they differ."""
    found = {}
    for job in jobs:
        if (stored := await _stored(service, job.job_id)) is not None:
            found[job.job_id] = _changes(job, stored)
    return found


async def _stored(service: Service, job_id: str) -> Definition | None:
    try:
        return (await service.jobs.get(job_id)).definition
    except NotFound:
        return None


def _changes(job: Moved, stored: Definition) -> Changes:
    new = job.definition
    if new.description == job.place:  # a line that has moved is no difference
        new = replace(new, description=stored.description)
    return differences(stored, new)


async def _placed(service: Service, families: Families) -> dict[str, str]:
    """Return the id of each line by the one that it was read with: that of the job that it became before, if any.

    By its number alone a line would change, or run, in the place of its neighbour. All lines of a family are placed
    together, or one would take the job of another on a later page.
    """
    placed = {line.job_id: line.job_id for lines in families.values() for line in lines}
    for family, lines in families.items():
        there = dict[str, Definition]()
        for number in count(1):
            job_id = family if number == 1 else f"{family}-{number}"
            if (stored := await _stored(service, job_id)) is None and number > len(lines):
                break
            if stored is not None:
                there[job_id] = stored
        _place(lines, there, placed)
    return placed


def _place(lines: Sequence[Moved], there: Mapping[str, Definition], placed: dict[str, str]) -> None:
    """Give each line a job that is as it says, else the job of its id if no line has that, else a new number."""
    free, others, alike = dict(there), [], dict[str, list[str]]()
    for job_id, stored in there.items():
        alike.setdefault(_key(stored), []).append(job_id)
    for line in lines:
        near = alike.get(_key(line.definition), [])
        same = next((job_id for job_id in near if not _changes(line, there[job_id])), None)
        if same is None:
            others.append(line)
        else:
            placed[line.job_id] = same
            near.remove(same)
            del free[same]
    used, numbers = {*there, *placed.values()}, count(2)
    for line in others:
        if line.job_id in there and free.pop(line.job_id, None) is None:
            placed[line.job_id] = next(new for n in numbers if (new := f"{line.family}-{n}") not in used)


def _key(definition: Definition) -> str:
    """Return what few lines of a file have in common, so that not every line is compared with every job."""
    return f"{definition.schedule} {definition.target}"


if TYPE_CHECKING:
    from tokimori.translators.entries import Entry, Row

STDIN = "-"


def text_of(file: str) -> str:
    """Read a file, or standard input; bytes that are not UTF-8 are decoded by `surrogateescape`."""
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as fault:
        raise InvalidFile(f"{file}: it can't be read: {fault.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def name_of(file: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if file == STDIN else file


def mapping_in(text: str, file: str) -> Mapping[str, object]:
    """Read an object of JSON, or of TOML if the file's name ends so. Raises `InvalidFile`."""
    kind = "TOML" if file.lower().endswith(".toml") else "JSON"
    try:
        found: object = tomllib.loads(text) if kind == "TOML" else msgspec.json.decode(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as fault:
        raise InvalidFile(
            f"{file}: not {kind}: {json_fault(fault, text)}", field="source", value=file, allowed=kind
        ) from None
    if isinstance(found, Mapping):
        return found
    raise InvalidFile(f"{file}: it holds no object", field="source", value=file, allowed="an object with names")


def files_in(sources: Sequence[str], names: re.Pattern[str], what: str) -> Iterator[str]:
    """Yield the files, and of folders the files whose names are so, which people call `what`."""
    for source in sources:
        if not Path(source).is_dir():
            yield source
            continue
        found = sorted(str(each) for each in Path(source).iterdir() if names.fullmatch(each.name) and each.is_file())
        if not found:
            raise InvalidFile(f"{source}: it has no {what}", field="source", value=source, allowed=what)
        yield from found


def of_files(files: Iterable[str], read: "Callable[[str], Iterable[Entry]]") -> "list[Entry]":
    """Read all files. What is wrong with one that can't be read is refused, and counts as no entry."""
    from tokimori.translators.entries import Unread

    found: list[Entry] = []
    for file in files:
        try:
            found += read(file)
        except InvalidFile as fault:
            for line in fault.message.splitlines():
                place, _, why = line.partition(": ")
                found.append(Unread(place, why))
    return found


def at_once(read: "Callable[[], Iterable[Entry]]") -> Pages:
    """Return the pages of a source that is read at once. Its jobs come in some at a time all the same."""

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        found = iter(read())
        while page := list(islice(found, MOST_LISTED)):
            yield page

    return pages


def of_table(database: str, table: str, read: "Callable[[Sequence[Row]], Iterator[Entry]]", key: str = "id") -> Pages:
    """Return the pages of one table."""

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of

        async with opened(database) as tables:
            await check_there(tables, (table,))
            async for rows in pages_of(tables, table, key):
                yield read(rows)

    return pages
