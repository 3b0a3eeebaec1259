"""`tokimori run list`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from tokimori.cli.command import Command, options
from tokimori.cli.completing import job_ids
from tokimori.cli.moment import AGO, past_or_none
from tokimori.cli.output import print_json
from tokimori.cli.run_id import whole_id
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Id, State, print_table
from tokimori.model.ids import RunId, check_job_id
from tokimori.model.transitions import RunState

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.finding import RunSearch
    from tokimori.service.runs import RunSummary
    from tokimori.service.service import Service

_COLUMNS = ("ID", "JOB", "STATE", "BY", "NOMINAL", "DUE", "STARTED", "ENDED", "EXIT", "REASON")
_SPARE = ("NOMINAL", "BY", "ENDED", "EXIT", "DUE", "STARTED")
"""What a narrow terminal does without, the first one first."""


@click.command(
    "list",
    cls=Command,
    examples=(
        ("run list --since 1h --state failed", "what failed in the last hour"),
        ("run list --job nightly --since 2030-01-01 --until 2030-02-01", "a month"),
        ("run list --watch", "until Ctrl-C"),
        ("run list -o ids --state held", "for a script"),
    ),
)
@click.option("--job", "job_id", metavar="ID", shell_complete=job_ids, help="Only runs of this job.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in RunState]),
    help="Only runs in this state; may be repeated.",
)
@click.option("--job-prefix", metavar="TEXT", help="Only runs of jobs whose ids begin with this.")
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="Of jobs with this label.")
@click.option("--owner", metavar="TEXT", help="Only runs of jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only runs of jobs of this queue.")
@click.option("--since", metavar="TIME", help=f"Only runs that were made then or later: {AGO}.")
@click.option("--until", metavar="TIME", help="Only runs that were made before, as --since.")
@click.option("-n", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--before", metavar="RUN", help="Only runs older than this one.")
@click.option("--watch", is_flag=True, help="Show them again every two seconds, until Ctrl-C.")
def list_runs(
    *,
    job_id: str | None,
    states: tuple[str, ...],
    count: int,
    before: str | None,
    since: str | None,
    until: str | None,
    watch: bool,
    **traits: Any,
) -> None:
    """List runs, newest first. Labels, owner and queue are those of their jobs as these are now."""
    from tokimori.cli.watching import watched
    from tokimori.service.finding import RunSearch
    from tokimori.service.views.runs import run_view

    wanted = RunSearch(
        **traits,
        job_id=None if job_id is None else check_job_id(job_id),
        state=frozenset(map(RunState, states)),
        limit=count,
    )

    async def act(service: "Service") -> "Sequence[RunSummary]":
        search = structs.replace(
            wanted,
            before=None if before is None else RunId(await whole_id(service, before, "before")),
            since=await past_or_none(service, "since", since),
            until=await past_or_none(service, "until", until),
        )
        return await service.summaries(await _found(service, search))

    if watch:
        watched(act, lambda runs: (_COLUMNS, _rows(runs), _SPARE))
    runs = in_service(act)
    if options().as_json:
        print_json([run_view(each.run) for each in runs])
    else:
        print_table(_COLUMNS, _rows(runs), spare=_SPARE)


def _rows(runs: "Sequence[RunSummary]") -> list[tuple[object, ...]]:
    from tokimori.model.run import asked_by

    return [
        (
            Id(each.id),
            job_shown(each, deleted=summary.is_job_deleted),
            State(each.state.value),
            asked_by(each.origin),
            At(each.nominal, zone),
            At(each.due, zone),
            At(each.started, zone),
            At(each.ended, zone),
            each.exit_code,
            each.error,
        )
        for each, zone, summary in ((summary.run, summary.time_zone, summary) for summary in runs)
    ]


async def _found(service: "Service", wanted: "RunSearch") -> "list[Run]":
    """So many as are wanted, if there are: one answer looks at a bounded number of runs."""
    found = await service.find_runs(wanted)
    runs = list(found.runs)
    while found.next is not None and len(runs) < wanted.limit:
        left = structs.replace(wanted, before=found.next, limit=wanted.limit - len(runs))
        found = await service.find_runs(left)
        runs += found.runs
    return runs


def job_shown(run: "Run", *, deleted: bool) -> str:
    """The id of its job, and whether that is gone."""
    return f"{run.job_id} (deleted)" if deleted else run.job_id
