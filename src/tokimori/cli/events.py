"""`tokimori events`."""

import sys
from typing import TYPE_CHECKING, Any, cast

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completing import job_ids
from tokimori.cli.moment import moment_ago
from tokimori.cli.output import local, print_json, print_lines, print_notice, printable
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Id, State, print_table
from tokimori.model.transitions import ENDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokimori.service.events.events import Event, Filters
    from tokimori.service.service import Service

_COLUMNS = ("TOLD", "STATE", "JOB", "RUN", "BY", "ATTEMPT", "EXIT", "REASON")
_SPARE = ("ATTEMPT", "BY", "EXIT")


@click.command("events", cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on, until it is stopped.")
@click.option("--job", "job_id", metavar="ID", shell_complete=job_ids, help="Only runs of this job.")
@click.option("--job-prefix", metavar="TEXT", help="Only runs of jobs whose ids begin with this.")
@click.option(
    "--state",
    multiple=True,
    type=click.Choice(sorted(state.value for state in ENDS)),
    help="Only runs that end so; may be repeated.",
)
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="Of jobs with this label.")
@click.option("--owner", metavar="TEXT", help="Only runs of jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only runs of jobs of this queue.")
@click.option(
    "--since", metavar="TIME", help="Begin there: a time, or how long ago, such as 10m. Without -f 1h by default."
)
@click.option("--after", metavar="POSITION", help="Begin behind the event of this position.")
def events(*, follow: bool, since: str | None, after: str | None, **filters: Any) -> None:
    """Tell of runs as they end, in the order in which the store was told of them.

    With -f each event is a line; with --json each is one JSON document. One may be told of twice, with the same id.
    """
    from tokimori.errors import InvalidInput

    if since is not None and after is not None:
        message = "since: it and --after say where to begin"
        raise InvalidInput(message, field="since", value=since, allowed="one of --since and --after")

    async def act(service: "Service") -> None:
        begin, wanted = await _begin(service, since, after, follow=follow), cast("Filters", filters)
        if follow:
            await _follow(service, begin, wanted)
        else:
            _print(await _page(service, begin, wanted), service.time_zone)

    in_service(act)


async def _begin(service: "Service", since: str | None, after: str | None, *, follow: bool) -> str | None:
    from tokimori.service.events.position import position_from

    if after is not None or (follow and since is None):
        return after
    return str(position_from(moment_ago("since", since or "1h", service.time_zone, await service.now())))


async def _page(service: "Service", after: str | None, filters: "Filters") -> "Sequence[Event]":
    """What there is, a bounded number of pages of it."""
    from tokimori.service.events.events import MOST_PAGES

    told = dict["str", "Event"]()
    for _ in range(MOST_PAGES):
        found = await service.events.read(after, **filters)
        _tell_gap(gap=found.gap)
        told |= {each.id: each for each in found.events}
        if not found.events and found.after == after:
            break
        after = found.after
    else:
        print_notice(f"There may be more: the same command with `--after {after}` goes on.")
    return list(told.values())


async def _follow(service: "Service", after: str | None, filters: "Filters") -> None:
    from tokimori.service.events.events import FOLLOW_WAIT

    zone = service.time_zone
    while True:
        found = await service.events.read(after, FOLLOW_WAIT, **filters)
        after = found.after
        _tell_gap(gap=found.gap)
        for event in found.events:
            _print_line(event, zone)
        sys.stdout.flush()
        if found.over:
            print_notice(f"The node stops; `tokimori events -f --after {after}` goes on at another one.")
            return


def _tell_gap(*, gap: bool) -> None:
    if gap:
        print_notice("There is a gap: events before these are not kept any more. `tokimori run list` knows the runs.")


def _print_line(event: "Event", zone: str) -> None:
    from msgspec import json

    from tokimori.service.views.events import event_view

    run = event.run
    if options().as_json:
        print_lines(json.encode(event_view(event)).decode())
        return
    words = [local(run.written, zone), event.what, run.job_id, run.id]
    words += [f"exit {run.exit_code}"] if run.exit_code else []
    print_lines("  ".join([*words, *([printable(run.error)] if run.error else [])]))


def _print(found: "Sequence[Event]", zone: str) -> None:
    from tokimori.model.run import asked_by
    from tokimori.service.views.events import event_view

    if options().as_json:
        print_json([event_view(each) for each in found])
        return
    rows = [
        (
            At(run.written, zone),
            State(run.state.value),
            run.job_id,
            Id(run.id),
            asked_by(run.origin),
            run.attempt,
            run.exit_code,
            run.error,
        )
        for run in (each.run for each in found)
    ]
    print_table(_COLUMNS, rows, spare=_SPARE)
