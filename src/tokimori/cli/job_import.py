"""`tokimori job import …`: a command for each foreign format, all with the same options."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.apply import changes_shown, counted, fields_shown
from tokimori.cli.command import Command, Group, options
from tokimori.cli.completion import zones
from tokimori.cli.moment import machine_zone
from tokimori.cli.output import print_json, print_lines, print_notice, some_of
from tokimori.cli.session import Absent, in_service, load, user_name
from tokimori.clock import SystemClock, format_moment
from tokimori.formats.registry import FORMATS, format_of

if TYPE_CHECKING:
    from tokimori.formats.format import Format, ImportRequest, Option
    from tokimori.formats.importing import Changes, ImportTally
    from tokimori.translators.entries import Moved

_EACH = (
    "All entries are checked before anything is imported, and the source is only read. Jobs that exist already stay as "
    "they are."
)


class Importers(Group):
    """A group with a command for each format, made when it is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a format."""
        return _command(cmd_name, format_of(cmd_name)) if cmd_name in FORMATS else super().get_command(ctx, cmd_name)


import_jobs = Importers(
    "import",
    help="Import jobs of other schedulers. Jobs that exist already stay as they are.",
    nouns={name: ("", text) for name, text in FORMATS.items()},
)


def _command(name: str, form: "Format") -> click.Command:
    return Command(
        name,
        help=f"Import {form.what}.\n\n{cleandoc(form.help)}\n\n{_EACH}",
        params=[
            click.Argument(["sources"], metavar=form.metavar, nargs=-1 if form.takes_many else 1, required=True),
            *map(_option, form.options),
            click.Option(
                ["--timezone", "time_zone"],
                metavar="ZONE",
                shell_complete=zones,
                help="The zone of times without one.",
            ),
            click.Option(["--dry-run"], is_flag=True, help="Show what would change, and change nothing."),
            click.Option(["--skip-refused"], is_flag=True, help="Go on without the entries that can't be moved."),
            click.Option(["--update"], is_flag=True, help="Also change jobs that exist and differ."),
        ],
        callback=partial(_import, form),
    )


def _option(option: "Option") -> click.Option:
    return click.Option(
        [f"--{option.name}", *([f"-{option.short}"] if option.short else [])],
        help=option.help,
        metavar=option.metavar,
        default=option.default,
        multiple=option.is_repeated,
        type=click.Choice(option.choices) if option.choices else None,
        is_flag=option.metavar is None and not option.choices,
    )


def _import(
    form: "Format",
    sources: str | tuple[str, ...],
    time_zone: str | None,
    *,
    dry_run: bool,
    skip_refused: bool,
    update: bool,
    **said: Any,
) -> None:
    from tokimori.formats.format import Given, ImportRequest

    source = form.source(
        Given(
            sources=(sources,) if isinstance(sources, str) else sources,
            options=said,
            time_zone=time_zone,
            machine_zone=partial(machine_zone, os.environ),
            networks=lambda: load().settings.targets.private_addresses,
            user=user_name() or str(os.geteuid()),
            now=SystemClock().now(),
        )
    )
    notes = list(source.notes)
    if time_zone is not None and form.names_zones:
        notes.append(f"--timezone {time_zone} changes nothing: every time that is read here has a zone")
    request = ImportRequest(dry_run=dry_run, skip_refused=skip_refused, update=update)
    _report(_brought(source.pages, request), notes, request)


def _brought(pages: Any, request: "ImportRequest") -> "ImportTally":
    """Bring the jobs in, unless it is a dry run. Raises `InvalidFile`."""
    import asyncio

    from tokimori.formats.importing import bring_in, check

    families = asyncio.run(check(pages, request, some_of))  # before a store is made

    return in_service(
        lambda service: bring_in(service, pages, families, request, partial(_print_job, request)),
        Absent.EMPTY if request.dry_run else Absent.MADE,
    )


# Printing


def _print_job(request: "ImportRequest", job: "Moved", changes: "Changes | None") -> None:
    """Show the outcome for a job: added (+), changed (~) or left as it is (?)."""
    if options().as_json:
        return
    if changes is None:
        print_lines(f"+ {job.job_id}", *fields_shown(_fields(job)), *_start(job))
    elif changes:
        head = f"~ {job.job_id}" if request.update else f"? {job.job_id}: it stays as it is"
        print_lines(head, *changes_shown(changes))


def _fields(job: "Moved") -> Mapping[str, object]:
    from tokimori.service.definitions.definitions import fields_of

    return dict(fields_of(job.definition))


def _start(job: "Moved") -> Iterator[str]:
    """Yield a line on the moment from which the job goes on."""
    start = job.start
    moments = {"since": start.since, "not before": start.not_before}
    facts = {
        "paused": start.paused_because,
        "parked": start.parked_because,
        "runs_remaining": job.runs_remaining,
        **{name: None if moment is None else format_moment(moment) for name, moment in moments.items()},
    }
    return (f"    {name}: {value}" for name, value in facts.items() if value is not None)


def _report(tally: "ImportTally", notes: Sequence[str], request: "ImportRequest") -> None:
    if options().as_json:
        print_json(_as_json(tally))
        return
    for line in _warnings(tally):
        print_notice(line)
    for note in notes if tally.added or tally.changed else ():
        print_notice(f"note: {note}")
    print_lines(_summary(tally, request))


def _warnings(tally: "ImportTally") -> Iterator[str]:
    """Yield lines on refused and skipped entries and lost fields. Of many of a kind some are named, others counted."""
    yield from some_of([f"refused: {place}: {why}" for place, why in tally.refused], "more were refused")
    yield from some_of([f"left out: {place}: {why}" for place, why in tally.left_out], "more were left out")
    by_kind: dict[str, list[str]] = {}
    known = set(tally.unchanged)
    for job in tally.jobs:
        for warning in job.warnings if job.job_id not in known else ():
            by_kind.setdefault(warning.partition(":")[0], []).append(f"warning: {job.job_id}: {warning}")
    for name, lines in by_kind.items():
        yield from some_of(lines, f"more warnings of {name}; --json has all of them")


def _summary(tally: "ImportTally", request: "ImportRequest") -> str:
    from tokimori.translators.entries import Unread

    names = ("added", "changed", "unchanged", "kept", "refused", "left_out")
    counts = {name: len(getattr(tally, name)) for name in names}
    counts["refused"] = sum(not isinstance(each, Unread) for each in tally.refused) or len(tally.refused)
    parts = counted(counts, ("added", "changed", "unchanged"), dry_run=request.dry_run)
    nothing = "" if tally.added or tally.changed or request.dry_run else "; nothing was changed"
    return f"{'dry run: ' if request.dry_run else ''}{tally.read} entries read, {parts}{nothing}"


def _as_json(tally: "ImportTally") -> dict[str, object]:
    return {
        "read": tally.read,
        "added": tally.added,
        "changed": tally.changed,
        "kept": tally.kept,
        "unchanged": tally.unchanged,
        "refused": [{"place": place, "why": why} for place, why in tally.refused],
        "left_out": [{"place": place, "why": why} for place, why in tally.left_out],
        "warnings": {job.job_id: job.warnings for job in tally.jobs if job.warnings},
        "jobs": [{"id": job.job_id, **_fields(job)} for job in tally.jobs],
    }
