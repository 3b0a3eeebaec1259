"""`tokimori job backfill`"""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.errors import DONE, RUN_FAILED
from tokimori.cli.moment import AGO, moment_ago
from tokimori.cli.output import local, print_json, print_lines, print_notice
from tokimori.cli.progress import counting
from tokimori.cli.session import in_service
from tokimori.cli.table import print_table
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.model.backfill import Backfill
    from tokimori.service.service import Service

STEP = 0.5
"""Seconds between two looks at a backfill that is under way."""


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--from", "first", required=True, metavar="TIME", help=f"The first moment, included: {AGO}.")
@click.option("--to", "last", metavar="TIME", help="The last moment, included, as --from; now by default.")
@click.option("--dry-run", is_flag=True, help="Only show which runs would be made, and what is left out and why.")
@click.option("--max-running", type=int, default=0, metavar="N", help="At most N of its runs are active at a time.")
@click.option("--wait", is_flag=True, help="Wait until all have ended; exit code 1 if not all succeeded.")
@click.option("--cancel", is_flag=True, help="Cancel the runs of such a backfill that have not ended.")
def backfill(
    job_id: str, *, first: str, last: str | None, dry_run: bool, max_running: int, wait: bool, cancel: bool
) -> int:
    """Make runs for a job's past occurrences that have none, the oldest first.

    The overlap policy never skips them: they wait. With --max-running the command stays until all are made. After an
    interruption repeat it; no run is made twice, even by two commands at a time.
    """
    if cancel and (dry_run or wait or max_running):
        message = "--cancel can't be combined with --dry-run, --wait or --max-running"
        raise InvalidInput(message, field="cancel", value=True, allowed="--from and --to")

    async def act(service: "Service") -> "Backfill":
        now, zone = await service.db.now(), (await service.jobs.get(job_id)).definition.time_zone
        start = moment_ago("from", first, zone, now)
        end = now if last is None else moment_ago("to", last, zone, now)
        if cancel:
            return await service.jobs.cancel_backfill(job_id, start, end)
        if dry_run:
            return await service.jobs.backfill(job_id, start, end, dry_run=True)
        return await _make(service, job_id, (start, end), max_running, wait=wait)

    done = in_service(act)
    _print(done, dry_run=dry_run)
    if dry_run or cancel:
        return DONE
    return RUN_FAILED if done.missing or (wait and not _succeeded(done)) else DONE


async def _make(
    service: "Service", job_id: str, moments: tuple[Moment, Moment], max_running: int, *, wait: bool
) -> "Backfill":
    """Make runs while there is room, until none is missing or the backfill is cancelled."""
    from tokimori.service.jobs.backfill import was_cancelled

    if (max_running or wait) and not any(node.runs_jobs for node in await service.nodes.list()):
        print_notice("the runs will wait for a node: start one with `tokimori serve`")
    before = await service.jobs.backfill(job_id, *moments, dry_run=True)
    printed = ""
    with counting("backfill", "runs") as advance:
        while True:
            done = await service.jobs.backfill(job_id, *moments, max_running=max_running)
            made = len(done.runs)
            advance(made - (done.active if wait else 0), made + len(done.missing))
            printed = _print_progress(done, printed)
            if was_cancelled(before, done):
                print_notice("somebody cancelled this backfill: no more runs are made")
                return done
            if not done.missing and not (wait and done.active):
                return done
            await asyncio.sleep(STEP)


def _print_progress(done: "Backfill", shown: str) -> str:
    """Print how far it is, if that has changed; a terminal has a bar."""
    news = _progress(done)
    if news != shown and (done.missing or done.active) and not sys.stderr.isatty():
        print_notice(news)
    return news


def _progress(done: "Backfill") -> str:
    states = ", ".join(f"{count} {state}" for state, count in sorted(done.states.items())) or "none yet"
    return f"{len(done.runs)} of {len(done.runs) + len(done.missing)} made: {states}"


def _succeeded(done: "Backfill") -> bool:
    from tokimori.model.transitions import RunState

    return set(done.states) <= {RunState.SUCCEEDED}


def _print(done: "Backfill", *, dry_run: bool) -> None:
    from tokimori.service.views.runs import Backfill as BackfillView

    if options().as_json:
        print_json(BackfillView.made(done))
        return
    if dry_run:
        print_table(("TIME", "BACKFILL"), _rows(done))
        print_lines(f"would make {amount(len(done.missing), 'run')}; {_progress(done)}; {len(done.left_out)} left out")
        return
    print_lines(f"{_progress(done)}; {len(done.left_out)} left out")


def _rows(done: "Backfill") -> list[tuple[str, str]]:
    """Return every occurrence of the range, and what happens with it."""
    zone = done.job.definition.time_zone
    found = [(moment, "to be made") for moment in done.missing]
    found += [(run.nominal, f"made: run {run.id} {run.state}") for run in done.runs]
    found += [
        (each.nominal, f"left out: {each.reason}" + (f", {each.run.id} {each.run.state}" if each.run else ""))
        for each in done.left_out
    ]
    return [(local(moment, zone), text) for moment, text in sorted(found)]
