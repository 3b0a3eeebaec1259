"""`tokimori apply`, and `tokimori set …`: who applied each set last."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.output import print_answer, print_lines
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import At, listing, print_list
from tokimori.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokimori.service.definitions.differences import FieldChange
    from tokimori.service.service import Service
    from tokimori.service.sets.resources import Changes
    from tokimori.service.sets.turns import SetState
    from tokimori.service.sets.work import Applied
    from tokimori.translators.job_file import DeclaredJob, DeclaredResource, Format, JobFile


_LONGEST = 200
"""Characters of a value that are shown."""


@click.command(cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--set", "name", metavar="NAME", help='The set, where no file says it: set = "NAME".')
@click.option("--prune", is_flag=True, help="Delete what is of the set and in no file any more.")
@click.option("--take-over", is_flag=True, help="Also change what another set declares, or somebody edited by hand.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--format", "form", type=click.Choice(["toml", "yaml", "json"]), help="By default by the file's name.")
def apply(
    files: tuple[str, ...], name: str | None, *, prune: bool, take_over: bool, dry_run: bool, form: "Format | None"
) -> None:
    """Make a set equal to its files: TOML, YAML or JSON, as `export` writes; - reads standard input.

    Files declare jobs, and beside them calendars, queues that are paused, and semaphores with their limits. The changes
    are shown first, and all files are checked before the first change. If a thing belongs to another set, or was edited
    by hand, nothing is changed unless --take-over is given.
    """
    from tokimori.service.sets.work import check_applicable

    read = [_read(file, form) for file in files]
    chosen = _set_of(read, files, name)
    jobs = _by_id([job for each in read for job in each.jobs])
    fields: Mapping[str, Any] = {job_id: job.fields for job_id, job in jobs.items()}
    rest: dict[str, Any] = _by_part([resource for each in read for resource in each.resources])

    async def act(service: "Service") -> "Applied":
        try:
            plan = await service.sets.apply(chosen, fields, **rest, prune=prune, take_over=take_over, dry_run=True)
            if not options().as_json:
                print_lines(*_diff(plan, fields, rest))
            if dry_run:
                return plan
            check_applicable(plan)
            return await service.sets.apply(chosen, fields, **rest, prune=prune, take_over=take_over)
        except InvalidInput as fault:
            raise _placed(fault, jobs) from None

    done = in_service(act, Absent.EMPTY if dry_run else Absent.MADE)
    print_answer(done, _summary(done, dry_run=dry_run))


# Reading


def _read(file: str, form: "Format | None") -> "JobFile":
    from tokimori.formats.importing import name_of, text_of
    from tokimori.translators.job_file import read_job_file

    return read_job_file(text_of(file), file=name_of(file), form=form)


def _set_of(read: "Sequence[JobFile]", files: Sequence[str], name: str | None) -> str:
    """Return the set that the files and the option name. Raises `InvalidFile` and `InvalidInput`."""
    chosen = name
    for file, each in zip(files, read, strict=True):
        if chosen is not None and each.set not in (None, chosen):
            message = f"{file}: set: {each.set!r} is not allowed; allowed: {chosen!r}, which is named already"
            raise InvalidFile(message, field="set", value=each.set, allowed=repr(chosen))
        chosen = chosen or each.set
    if chosen is None:
        message = 'set: no file names the set of its jobs: write set = "NAME" in one, or give --set NAME'
        raise InvalidInput(message, field="set", allowed="a name, such as that of the deployment")
    return chosen


def _by_id(jobs: "Sequence[DeclaredJob]") -> "dict[str, DeclaredJob]":
    """Return the jobs by id. Raises `InvalidFile` for an id that is there twice."""
    found: dict[str, DeclaredJob] = {}
    for job in jobs:
        if (first := found.setdefault(job.id, job)) is not job:
            message = f"{job.file}: {job.path}.id: {job.id!r} is not allowed, as {first.file}: {first.path} has it"
            raise InvalidFile(message, field=f"{job.path}.id", value=job.id, allowed="an id that no other job has")
    return found


def _by_part(resources: "Sequence[DeclaredResource]") -> dict[str, dict[str, Any]]:
    """Return the fields of resources, by part and name. Raises `InvalidFile` for one that is there twice."""
    found: dict[str, DeclaredResource] = {}
    parts: dict[str, dict[str, Any]] = {}
    for each in resources:
        if (first := found.setdefault(each.path, each)) is not each:
            message = f"{each.file}: {each.path} is not allowed, as {first.file} has it, too"
            raise InvalidFile(message, field=each.path, value=each.name, allowed="each name once")
        parts.setdefault(each.part, {})[each.name] = each.fields
    return parts


def _placed(fault: InvalidInput, jobs: "Mapping[str, DeclaredJob]") -> InvalidInput:
    """Return a fault that the service has found, with its place in the files. Its field begins with the job's id."""
    from tokimori.translators.job_file import fault_in

    for job_id, job in jobs.items():
        if fault.field is not None and fault.field.startswith(f"{job_id}.") and fault.message.startswith(job_id):
            inner = InvalidInput(
                fault.message.removeprefix(f"{job_id}: "),
                field=fault.field.removeprefix(f"{job_id}."),
                value=fault.value,
                allowed=fault.allowed,
            )
            return fault_in(job, inner)
    return fault


# Printing


def _diff(plan: "Applied", fields: Mapping[str, Mapping[str, Any]], rest: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines: added (+), changed (~), taken into the set (>), removed (-), kept (?) and refused (!); jobs last."""
    from tokimori.service.sets.resource_kinds import PARTS, WORDS

    yield f"set {plan.set}"
    for part in PARTS:
        yield from _changes(getattr(plan, part), f"{WORDS[part]} ", rest.get(part, {}))
    yield from _changes(plan, "", fields)


def _changes(plan: "Changes", word: str, fields: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in plan.added:
        yield f"+ {word}{name}"
        yield from fields_shown(fields[name])
    for name, changes in plan.changed.items():
        yield f"~ {word}{name}"
        yield from changes_shown(changes)
    yield from (f"> {word}{name}: it is as declared, and becomes one of this set" for name in plan.adopted)
    yield from (f"- {word}{name}" for name in plan.removed)
    yield from (f"? {word}{name}: no file declares it any more; --prune deletes it" for name in plan.kept)
    yield from (f"! {word}{name}: {why}" for name, why in plan.refused.items())


def fields_shown(fields: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines below a job that is added."""
    return (f"    {field}: {_shown(field, value)}" for field, value in fields.items())


def changes_shown(changes: "Sequence[FieldChange]") -> Iterator[str]:
    """Return the lines below a job that is changed."""
    return (f"    {each.field}: {_shown(each.field, each.old)} → {_shown(each.field, each.new)}" for each in changes)


def _shown(name: str, value: object) -> str:
    from msgspec import json

    from tokimori.cli.job_printing import masked

    text = "default" if value is None else json.encode(masked(name, value)).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_WOULD = {"added": "would add", "changed": "would change", "removed": "would delete", "adopted": "would adopt"}


def _summary(done: "Applied", *, dry_run: bool) -> str:
    kinds = (done, done.calendars, done.queues, done.semaphores)
    words = ("added", "changed", "removed", "adopted", "kept", "refused", "unchanged")
    counts = {word: sum(len(getattr(kind, word)) for kind in kinds) for word in words}
    parts = counted(counts, ("added", "changed", "removed"), dry_run=dry_run)
    return f"dry run: {parts}" if dry_run else parts


def counted(counts: Mapping[str, int], always: Sequence[str], *, dry_run: bool) -> str:
    """Return counts in words. Counts of zero are left out unless they are in `always`; a dry run says "would"."""
    shown = [word for word, count in counts.items() if count or word in always]
    words = {word: word.replace("_", " ") for word in shown}
    parts = [f"{_WOULD[w]} {counts[w]}" if dry_run and w in _WOULD else f"{counts[w]} {words[w]}" for w in shown]
    return ", ".join(parts)


sets = Group("set", help="Sets: jobs and resources that files declare together, or that an app declares.")

_COLUMNS = ("NAME", "JOBS", "VERSION", "APPLIED", "BY", "STATE")


@sets.command("list")
@listing(_COLUMNS)
def list_sets() -> None:
    """List the sets with the author of the last apply, and whether it was finished."""
    _print(None)


@sets.command("show")
@click.argument("name")
@listing(_COLUMNS)
def show_set(name: str) -> None:
    """Show one set."""
    _print(name)


def _sentence(state: "SetState") -> str:
    """Return the state of the set in words."""
    by = state.by or "somebody"
    return {
        "whole": "whole",
        "at_work": f"{by} applies it now",
        "half_applied": f"half applied by {by}: apply it again",
    }[state.state]


def _print(name: str | None) -> None:
    from tokimori.service.views.resources import SetState as SetView

    async def act(service: "Service") -> "tuple[Sequence[SetState], str]":
        return await service.sets.list(name), service.time_zone

    found, zone = in_service(act)
    rows = [
        (
            each,
            [
                (
                    each.name,
                    each.jobs,
                    each.version,
                    None if each.begun is None else At(each.begun, zone),
                    each.by,
                    _sentence(each),
                )
            ],
        )
        for each in found
    ]
    print_list(_COLUMNS, rows, SetView.made)
