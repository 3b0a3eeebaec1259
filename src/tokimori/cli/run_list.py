"""`tokimori run list`"""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.moment import AGO, past_or_none
from tokimori.cli.output import print_notice
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Listed, Short, State, listing, print_list, rows_of, table_text
from tokimori.errors import Refused
from tokimori.model.ids import check_job_id
from tokimori.model.transitions import RunState

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.runs.runs import RunSummary
    from tokimori.service.service import Service


MOST_SEARCHED = 10_000
"""Number of runs searched for a text."""


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
@click.option("--cause", metavar="TEXT", help="Only failures with this cause, or with that of this id.")
@click.option("--contains", metavar="TEXT", help="Only with this text in the payload, error, result or output.")
@click.option("--node", metavar="TEXT", help="Only if the newest attempt is at the node of this id or host.")
@click.option("--duration-over", metavar="LENGTH", help="Only if the newest attempt has lasted longer.")
@click.option("-n", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--before", metavar="RUN", help="Only runs older than this one.")
@click.option("--watch", is_flag=True, help="Show them again every two seconds, until Ctrl-C.")
@listing(_COLUMNS)
def list_runs(
    *,
    job_id: str | None,
    states: tuple[str, ...],
    count: int,
    before: str | None,
    since: str | None,
    until: str | None,
    contains: str | None,
    watch: bool,
    **traits: Any,
) -> None:
    """List runs, newest first. Labels, owner and queue are the present ones of their jobs.

    `--text` and `--sort` apply to the listed runs, at most -n of them. For `--contains` the newest 10,000 are searched;
    the last line says how to go on.
    """
    from tokimori.service.views.runs import Run as RunView

    wanted = {**traits, "text": contains, "job_id": None if job_id is None else check_job_id(job_id), "state": states}

    async def act(service: "Service") -> "Sequence[RunSummary]":
        filters = {
            **wanted,
            "before": None if before is None else await service.runs.whole_id(before),
            "since": await past_or_none(service, "since", since),
            "until": await past_or_none(service, "until", until),
        }
        return await service.runs.summaries(await _found(service, count, filters))

    if watch:
        watched(act, lambda runs: (_COLUMNS, rows_of(_COLUMNS, _listed(runs)), _SPARE))
    print_list(_COLUMNS, _listed(in_service(act)), RunView.made, spare=_SPARE)


def _listed(runs: "Sequence[RunSummary]") -> "Listed[Run]":
    return [(each.run, [_row(each.run, each)]) for each in runs]


def _row(run: "Run", summary: "RunSummary") -> tuple[object, ...]:
    from tokimori.model.run import asked_in_words, shown_due

    zone = summary.time_zone
    return (
        Short(run.id),
        job_shown(run, deleted=summary.is_job_deleted),
        State(run.state.value),
        asked_in_words(run),
        At(run.nominal, zone),
        At(shown_due(run), zone),
        At(run.started, zone),
        At(run.ended, zone),
        run.exit_code,
        run.error,
    )


async def _found(service: "Service", count: int, wanted: dict[str, Any]) -> "list[Run]":
    """Return up to `count` runs. One answer searches a bounded number of runs, so several may be needed."""
    found = await service.runs.list(**wanted, limit=count)
    runs, looked = list(found), found.looked
    while found.next is not None and len(runs) < count and (wanted["text"] is None or looked < MOST_SEARCHED):
        found = await service.runs.list(**{**wanted, "before": found.next, "limit": count - len(runs)})
        runs, looked = [*runs, *found], looked + found.looked
    if wanted["text"] is not None and found.next is not None and len(runs) < count:
        print_notice(f"{looked:,} runs were looked at; go on with --before {found.next}")
    if not runs and wanted["cause"] is not None:
        print_notice("no such run has this cause: `tokimori run failures` shows the causes, as they are given here")
    return runs


def job_shown(run: "Run", *, deleted: bool) -> str:
    """Return the id of its job, and whether that is gone."""
    return f"{run.job_id} (deleted)" if deleted else run.job_id


_T = TypeVar("_T")
Table = tuple[Sequence[str], Sequence[Sequence[object]], Sequence[str]]
"""Columns, rows, and the columns that a narrow terminal can do without."""
INTERVAL = 2.0
"""Seconds between two looks."""
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def watched(look: Callable[["Service"], Awaitable[_T]], table_of: Callable[[_T], Table]) -> NoReturn:
    """Show the table of the current values, again and again. Raises `Refused` without a terminal."""
    if options().output not in ("table", "wide") or not sys.stdout.isatty():
        message = "watch: the list is drawn anew on a terminal, and this is none"
        raise Refused(message, field="watch", allowed="a terminal, and no --json or --output")

    async def act(service: "Service") -> NoReturn:
        while True:
            shown(table_text(*table_of(await look(service))))
            await asyncio.sleep(INTERVAL)

    in_service(act)
    raise AssertionError("only Ctrl-C ends it")


def shown(text: str) -> None:
    """Replace the content of the terminal by the lines, as many as fit."""
    lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
    sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST)
    sys.stdout.flush()
