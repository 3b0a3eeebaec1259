"""`tokimori run failures`"""

from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.moment import AGO, past_or_none
from tokimori.cli.output import local, print_answer, print_json, print_notice
from tokimori.cli.session import in_service, with_zone
from tokimori.cli.table import At, Short, print_found, print_table

if TYPE_CHECKING:
    from tokimori.model.cause import Mute
    from tokimori.service.runs.failures import FoundFailures
    from tokimori.service.service import Service

_COLUMNS = ("COUNT", "CAUSE", "MUTED", "JOBS", "FIRST", "LAST", "WHEN", "RUN", "ID")
_COLUMNS_OF_MUTES = ("ID", "CAUSE", "UNTIL", "BY", "REASON")
_SPARE = ("FIRST", "ID", "WHEN", "JOBS", "MUTED")
_BARS = " ▁▂▃▄▅▆▇█"


@click.command(
    "failures",
    cls=Command,
    examples=(
        ("run failures --since 7d", "of a week, the most frequent cause first"),
        ("run list --cause 3f2a9b1c04de", "the runs of one of them"),
    ),
)
@click.option("--job", "job_id", metavar="ID", shell_complete=job_ids, help="Only runs of this job.")
@click.option("--job-prefix", metavar="TEXT", help="Only runs of jobs whose ids begin with this.")
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="Of jobs with this label.")
@click.option("--owner", metavar="TEXT", help="Only runs of jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only runs of jobs of this queue.")
@click.option("--since", metavar="TIME", help=f"Only runs that failed then or later: {AGO}. A day ago by default.")
@click.option("--until", metavar="TIME", help="Only runs that failed before, as --since.")
@click.option("--before", metavar="RUN", help="Only runs older than this one.")
def failures(*, since: str | None, until: str | None, before: str | None, **traits: Any) -> None:
    """Show failed runs by cause: their number, jobs, times, and the newest run of each cause."""
    from tokimori.service.views.runs import FoundFailures as FailuresView

    async def act(service: "Service") -> "tuple[str, FoundFailures]":
        found = await service.runs.failures(
            **traits,
            since=await past_or_none(service, "since", since),
            until=await past_or_none(service, "until", until),
            before=None if before is None else await service.runs.whole_id(before),
        )
        return service.time_zone, found

    zone, found = in_service(act)
    if options().as_json:
        print_json(FailuresView.made(found))
        return
    rows = [
        (
            each.count,
            each.cause,
            "" if each.muted is None else At(each.muted.until, zone),
            ", ".join(each.jobs) + (f" and {each.more_jobs} more" if each.more_jobs else ""),
            At(each.first, zone),
            At(each.last, zone),
            _drawn(each.histogram),
            Short(each.sample),
            each.id,
        )
        for each in found.causes
    ]
    print_table(_COLUMNS, rows, spare=_SPARE)
    if found.next is not None:
        print_notice(f"{found.looked:,} failed runs were looked at; go on with --before {found.next}")


_cause = click.argument("cause")


@click.command("mute", cls=Command, examples=(("run mute 3f2a9b1c04de --for 2d --reason 'mended on Monday'", ""),))
@_cause
@click.option("--for", "lasts", metavar="LENGTH", default="7d", show_default=True, help="At most 90 days.")
@click.option("--reason", metavar="TEXT", help="Shown to everybody.")
def mute(cause: str, *, lasts: str, reason: str | None) -> None:
    """Mute a cause of failures, by the id that `run failures` shows: for a while it counts with what needs nobody."""
    zone, found = with_zone(lambda service: service.runs.mute(cause, lasts, reason))
    _print_mute(found, f"muted until {local(found.until, zone)}: {found.cause}")


@click.command("unmute", cls=Command)
@_cause
def unmute(cause: str) -> None:
    """Mute a cause of failures no longer."""
    found = in_service(lambda service: service.runs.unmute(cause))
    _print_mute(found, f"{cause} was not muted" if found is None else f"not muted any more: {found.cause}")


@click.command("mutes", cls=Command)
def mutes() -> None:
    """List the causes of failures that are muted: until when, by whom and why."""
    from tokimori.service.views.runs import Mute as MuteView

    zone, found = with_zone(lambda service: service.runs.mutes())
    rows = [(each.id, each.cause, At(each.until, zone), each.by, each.reason) for each in found]
    print_found([MuteView.made(each) for each in found], _COLUMNS_OF_MUTES, rows, spare=("ID",))


def _print_mute(found: "Mute | None", text: str) -> None:
    from tokimori.service.views.runs import Mute as MuteView

    print_answer(None if found is None else MuteView.made(found), text)


def _drawn(histogram: tuple[int, ...]) -> str:
    most = max(histogram)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in histogram) if most else ""
