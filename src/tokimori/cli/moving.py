"""What the imports of other schedulers share: every entry is read first, then the jobs come in, page by page."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.apply import changes_shown, fields_shown
from tokimori.cli.command import options
from tokimori.cli.output import print_json, print_lines, print_notice, some_of
from tokimori.cli.session import Absent, in_service
from tokimori.errors import InvalidFile, NotFound

if TYPE_CHECKING:
    from tokimori.service.declaring import FieldChange
    from tokimori.service.service import Service
    from tokimori.translators.moving import Entry, Moved, Refused

PAGE = 1_000
"""Jobs that come in in one transaction."""
Pages = Callable[[], AsyncIterator["Iterable[Entry]"]]
"""What reads all entries of a source from its beginning, some at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the options say."""

    dry_run: bool
    skip_refused: bool
    update: bool


def with_move_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every such import."""
    for option in (
        click.option("--update", is_flag=True, help="Also change jobs that exist and differ."),
        click.option("--skip-refused", is_flag=True, help="Go on without the entries that can't be moved."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
    ):
        command = option(command)
    return command


@dataclass(slots=True)
class Tally:
    """What became of the entries so far."""

    read: int = 0
    added: list[str] = field(default_factory=list)
    changed: dict[str, "tuple[FieldChange, ...]"] = field(default_factory=dict)
    kept: dict[str, "tuple[FieldChange, ...]"] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    refused: list["Refused"] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)


def move(pages: Pages, notes: Sequence[str], wish: Wish) -> None:
    """Bring the jobs in, unless it is a dry run, and print what became of each. Raises `InvalidFile`.

    Jobs that exist stay as they are, unless they are to be changed. The same import again changes nothing.
    """
    asyncio.run(_check(pages, wish))  # before a store is made
    tally = in_service(lambda service: _moved(service, pages, wish), Absent.EMPTY if wish.dry_run else Absent.MADE)
    if options().as_json:
        print_json(_as_json(tally))
        return
    for line in _warnings(tally):
        print_notice(line)
    for note in notes if tally.added or tally.changed else ():
        print_notice(f"note: {note}")
    print_lines(_summary(tally, wish))


async def _moved(service: "Service", pages: Pages, wish: Wish) -> Tally:
    tally = Tally()
    taken: dict[str, str] = {}
    async for page in pages():
        await _bring_in(service, _jobs_of(page, taken, tally), tally, wish)
    return tally


async def _check(pages: Pages, wish: Wish) -> None:
    """Read all entries, and change nothing. Raises `InvalidFile` with those that are refused."""
    tally = Tally()
    taken: dict[str, str] = {}
    async for page in pages():
        for _ in _jobs_of(page, taken, tally):
            pass
    if tally.refused and not wish.skip_refused:
        faults = some_of([f"{place}: {why}" for place, why in tally.refused], "more faults")
        raise InvalidFile(
            "\n".join([*faults, "nothing was imported; --skip-refused goes on without these"]), field="source"
        )


def _jobs_of(page: "Iterable[Entry]", taken: dict[str, str], tally: Tally) -> "Iterator[Moved]":
    """The jobs of a page; what is none is counted. `taken` knows where each id was read."""
    from tokimori.translators.moving import Moved, Refused, told_apart

    for entry in told_apart(page, taken):
        tally.read += 1
        if isinstance(entry, Moved):
            yield entry
        elif isinstance(entry, Refused):
            tally.refused.append(entry)
        else:
            tally.left_out.append(entry)


async def _bring_in(service: "Service", jobs: "Iterable[Moved]", tally: Tally, wish: Wish) -> None:
    """Add the jobs of one page, in one transaction; those that exist are compared."""
    page = {job.job_id: job for job in jobs}
    known = await _known(service, page.values())
    new = {job_id: job for job_id, job in page.items() if job_id not in known}
    if new and not wish.dry_run:
        done = await service.import_all(
            [(job_id, job.definition) for job_id, job in new.items()],
            starts={job_id: job.start for job_id, job in new.items()},
            runs_remaining={
                job_id: job.runs_remaining for job_id, job in new.items() if job.runs_remaining is not None
            },
        )
        known |= await _known(service, [new[job_id] for job_id in done.unchanged])
    for job_id, job in page.items():
        changes = known.get(job_id)
        if changes and wish.update and not wish.dry_run:
            await service.edit(job_id, _fields(job), whole=True)
        _tell(job, changes, tally, wish)


async def _known(service: "Service", jobs: "Iterable[Moved]") -> "dict[str, tuple[FieldChange, ...]]":
    """The jobs that exist already, with the fields in which they differ."""
    from tokimori.service.declaring import differences

    found = {}
    for job in jobs:
        try:
            stored = await service.get(job.job_id)
        except NotFound:
            continue
        found[job.job_id] = differences(stored.definition, job.definition)
    return found


def _fields(job: "Moved") -> Mapping[str, object]:
    from tokimori.service.definitions import fields_of

    return dict(fields_of(job.definition))


# Printing


def _tell(job: "Moved", changes: "tuple[FieldChange, ...] | None", tally: Tally, wish: Wish) -> None:
    """Count a job, and show what becomes of it, unless that is for programs."""
    if job.warnings:
        tally.warnings[job.job_id] = job.warnings
    if changes is None:
        tally.added.append(job.job_id)
    elif not changes:
        tally.unchanged.append(job.job_id)
    else:
        (tally.changed if wish.update else tally.kept)[job.job_id] = changes
    if options().as_json:
        tally.jobs.append({"id": job.job_id, **_fields(job)})
    else:
        print_lines(*_diff(job, changes, wish))


def _diff(job: "Moved", changes: "tuple[FieldChange, ...] | None", wish: Wish) -> Iterator[str]:
    """A job that is added (+), changed (~) or kept as it is (?)."""
    if changes is None:
        yield f"+ {job.job_id}"
        yield from fields_shown(_fields(job))
        yield from (f"    {name}: {value}" for name, value in _start(job))
    elif changes:
        yield f"{'~' if wish.update else '?'} {job.job_id}{'' if wish.update else ': it stays as it is'}"
        yield from changes_shown(changes)


def _start(job: "Moved") -> Iterator[tuple[str, str]]:
    """How the job goes on, in words."""
    from tokimori.clock import format_moment

    start = job.start
    if start.paused_because is not None:
        yield "paused", start.paused_because
    if start.parked_because is not None:
        yield "parked", start.parked_because
    if job.runs_remaining is not None:
        yield "runs_remaining", str(job.runs_remaining)
    if start.since is not None:
        yield "since", format_moment(start.since)
    if start.not_before is not None:
        yield "not before", format_moment(start.not_before)


def _warnings(tally: Tally) -> Iterator[str]:
    """What was refused or left out, and what jobs have lost; of many of one kind some, and their number."""
    yield from some_of([f"refused: {place}: {why}" for place, why in tally.refused], "more were refused")
    yield from some_of([f"left out: {place}: {why}" for place, why in tally.left_out], "more were left out")
    told: dict[str, list[str]] = {}
    known = set(tally.unchanged)
    for job_id, warnings in tally.warnings.items():
        for warning in warnings if job_id not in known else ():
            told.setdefault(warning.partition(":")[0], []).append(f"warning: {job_id}: {warning}")
    for name, lines in told.items():
        yield from some_of(lines, f"more warnings of {name}; --json has all of them")


def _summary(tally: Tally, wish: Wish) -> str:
    counts = Counter(
        {name: len(getattr(tally, name)) for name in ("added", "changed", "unchanged", "kept", "refused", "left_out")}
    )
    always = ("added", "changed", "unchanged")
    told = [f"{counts[name]} {name.replace('_', ' ')}" for name in counts if counts[name] or name in always]
    nothing = "" if tally.added or tally.changed or wish.dry_run else "; nothing was changed"
    return f"{'dry run: ' if wish.dry_run else ''}{tally.read} entries read, {', '.join(told)}{nothing}"


def _as_json(tally: Tally) -> dict[str, object]:
    return {
        "read": tally.read,
        "added": tally.added,
        "changed": tally.changed,
        "kept": tally.kept,
        "unchanged": tally.unchanged,
        "refused": [{"place": place, "why": why} for place, why in tally.refused],
        "left_out": [{"place": place, "why": why} for place, why in tally.left_out],
        "warnings": tally.warnings,
        "jobs": tally.jobs,
    }


def at_once(read: "Callable[[], Awaitable[Iterable[Entry]]]") -> Pages:
    """The pages of a source that is read at once. Its jobs come in some at a time all the same."""

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        found = iter(await read())
        while page := list(islice(found, PAGE)):
            yield page

    return pages
