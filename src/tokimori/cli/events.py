"""`tokimori events`."""

import sys
from typing import TYPE_CHECKING, Any, cast

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.moment import moment_ago
from tokimori.cli.output import local, print_lines, print_notice, printable
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Short, State, print_found
from tokimori.model.transitions import ENDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from tokimori.service.events.events import AnyEvent, Event, Filters, FoundEvents, MixedEvents
    from tokimori.service.service import Service

    Read = Callable[[str | None, float], Awaitable[FoundEvents | MixedEvents]]

_COLUMNS = ("STORED", "STATE", "JOB", "RUN", "BY", "ATTEMPT", "EXIT", "REASON")
_SPARE = ("ATTEMPT", "BY", "EXIT")


@click.command("events", cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on, until it is stopped.")
@click.option(
    "--kind",
    type=click.Choice(["runs", "definitions", "audit", "all", "notices"]),
    default="runs",
    help="Ends of runs, changes of definitions (jobs, tasks, expectations, calendars, queues, semaphores, nodes), the "
    "whole audit log, or all of it. `runs` by default. `notices` only name what has changed, starts of runs too (-f).",
)
@click.option("--job", "job_id", metavar="ID", shell_complete=job_ids, help="Only of this job.")
@click.option("--job-prefix", metavar="TEXT", help="Only of jobs whose ids begin with this.")
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
def events(*, follow: bool, kind: str, since: str | None, after: str | None, **filters: Any) -> None:
    """Print ends of runs, in the order in which the store received them, or changes (--kind).

    With -f each event is a line; with --json each is one JSON document. An event may come twice, with the same id.
    """
    from tokimori.errors import InvalidInput

    if since is not None and after is not None:
        message = "since: it and --after say where to begin"
        raise InvalidInput(message, field="since", value=since, allowed="one of --since and --after")

    if kind == "notices" and (not follow or since is not None or any(filters.values())):
        message = "kind: notices come as they happen, of everything"
        raise InvalidInput(message, field="kind", value=kind, allowed="-f, with --after alone")

    async def act(service: "Service") -> None:
        if kind == "notices":
            await _follow_notices(service, after)
            return
        begin = await _begin(service, since, after, follow=follow)
        read = _reader(service, kind, cast("Filters", filters))
        if follow:
            await _follow(read, begin, service.time_zone)
        elif kind == "runs":
            _print(await _page(read, begin), service.time_zone)
        else:
            _print_all(await _page(read, begin), service.time_zone)

    in_service(act)


def _reader(service: "Service", kind: str, filters: "Filters") -> "Read":
    async def read(after: str | None, wait: float) -> "FoundEvents | MixedEvents":
        if kind == "runs":
            return await service.events.read(after, wait, **filters)
        return await service.events.read_all(kind, after, wait, **filters)

    return read


async def _begin(service: "Service", since: str | None, after: str | None, *, follow: bool) -> str | None:
    from tokimori.service.events.position import position_from

    if after is not None or (follow and since is None):
        return after
    return str(position_from(moment_ago("since", since or "1h", service.time_zone, await service.db.now())))


async def _page(read: "Read", after: str | None) -> "Sequence[Event | AnyEvent]":
    """Return a bounded number of pages of events."""
    from tokimori.service.events.events import MOST_PAGES

    by_id = dict["str", "Event | AnyEvent"]()
    for _ in range(MOST_PAGES):
        found = await read(after, 0.0)
        _print_gap(gap=found.gap)
        by_id |= {each.id: each for each in found.events}
        if not found.events and found.after == after:
            break
        after = found.after
    else:
        print_notice(f"There may be more: the same command with `--after {after}` goes on.")
    return list(by_id.values())


async def _follow(read: "Read", after: str | None, zone: str) -> None:
    from tokimori.service.events.notices import FOLLOW_WAIT

    while True:
        found = await read(after, FOLLOW_WAIT)
        after = found.after
        _print_gap(gap=found.gap)
        for event in found.events:
            _print_line(event, zone)
        sys.stdout.flush()
        if found.over:
            print_notice(f"The node stops; `tokimori events -f --after {after}` goes on at another one.")
            return


async def _follow_notices(service: "Service", after: str | None) -> None:
    from msgspec import json

    async for found in service.events.follow_notices(after):
        if options().as_json:
            print_lines(json.encode(found).decode())
        elif found.reload:
            print_lines("reload: more has changed than is remembered")
        for notice in () if options().as_json else found.notices:
            print_lines(f"{notice.noun}  {' '.join(map(printable, notice.ids)) or '*'}")
        sys.stdout.flush()


def _print_gap(*, gap: bool) -> None:
    if gap:
        print_notice("There is a gap: events before these are not kept any more. `tokimori run list` knows the runs.")


def _print_line(event: "Event | AnyEvent", zone: str) -> None:
    from msgspec import json

    from tokimori.service.views.events import event_given

    if options().as_json:
        print_lines(json.encode(event_given(event)).decode())
        return
    print_lines("  ".join([local(event.written, zone), event.what, *(printable(word) for word in _words(event))]))


def _words(event: "Event | AnyEvent") -> "Iterator[str]":
    """Yield the words of an event: of a run its job and its end; of a change the thing, the author and the reason."""
    run, change = event.run, getattr(event, "change", None)
    if run is not None:
        yield from (run.job_id, run.id)
        yield from [f"exit {run.exit_code}"] if run.exit_code else []
        yield from [run.error] if run.error else []
    elif change is not None:
        yield change.name
        yield f"by {change.by or 'nobody knows whom'}"
        yield from [change.reason] if change.reason else []
        yield from [f"changed: {', '.join(change.fields)}"] if change.fields else []


def _print_all(found: "Sequence[Event | AnyEvent]", zone: str) -> None:
    from tokimori.service.views.events import event_given

    rows = []
    for each in found:
        name, *more = _words(each)
        rows.append((At(each.written, zone), each.what, name, "  ".join(more)))
    print_found([event_given(each) for each in found], ("STORED", "EVENT", "NAME", "MORE"), rows)


def _print(found: "Sequence[Event | AnyEvent]", zone: str) -> None:
    from tokimori.model.run import asked_by
    from tokimori.service.views.events import event_given

    rows = [
        (
            At(run.written, zone),
            State(run.state.value),
            run.job_id,
            Short(run.id),
            asked_by(run.origin).replace("request", "requested"),
            run.attempt,
            run.exit_code,
            run.error,
        )
        for run in (each.run for each in found if each.run is not None)
    ]
    print_found([event_given(each) for each in found], _COLUMNS, rows, spare=_SPARE)
