"""`tokimori job backfill`"""

import asyncio
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.ending import DONE, RUN_FAILED
from tokimori.cli.output import local, print_json, print_lines, print_notice, print_table
from tokimori.cli.session import in_service
from tokimori.clock import Moment, SystemClock, parse_moment
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.backfill import Backfill
    from tokimori.service.service import Service

STEP = 0.5
"""Seconds between two looks at a backfill that is under way."""


@click.command(cls=Command)
@click.argument("job_id", metavar="ID")
@click.option("--from", "first", required=True, metavar="TIME", help="Such as 2030-01-01T00:00:00Z; included.")
@click.option("--to", "last", metavar="TIME", help="Included; now by default.")
@click.option("--dry-run", is_flag=True, help="Only show what would be made, and what is left out and why.")
@click.option("--max-running", type=int, default=0, metavar="N", help="At most N of its runs are active at a time.")
@click.option("--wait", is_flag=True, help="Wait for the end of all; exit code 1 if not all succeeded.")
@click.option("--cancel", is_flag=True, help="Cancel what a backfill of this range made and has not ended.")
def backfill(
    job_id: str, *, first: str, last: str | None, dry_run: bool, max_running: int, wait: bool, cancel: bool
) -> int:
    """Make runs of a job's past occurrences that have none, the oldest first.

    They queue: overlap never skips them. With --max-running the command stays until all are made; whether it was
    interrupted or not, a second one goes on where the first one is, and makes nothing twice.
    """
    if cancel and (dry_run or wait or max_running):
        raise InvalidInput("--cancel stands alone", field="cancel", value=True, allowed="none of the other options")
    start = parse_moment(first, field="from")
    end = SystemClock().now() if last is None else parse_moment(last, field="to")

    async def act(service: "Service") -> "Backfill":
        if cancel:
            return await service.cancel_backfill(job_id, start, end)
        if dry_run:
            return await service.backfill(job_id, start, end, dry_run=True)
        return await _make(service, job_id, (start, end), max_running, wait=wait)

    done = in_service(act)
    _print(done, dry_run=dry_run)
    if dry_run or cancel:
        return DONE
    return RUN_FAILED if done.missing or (wait and not _succeeded(done)) else DONE


async def _make(
    service: "Service", job_id: str, moments: tuple[Moment, Moment], max_running: int, *, wait: bool
) -> "Backfill":
    """Make what there is room for until nothing is missing, or somebody cancels it."""
    from tokimori.service.backfill import was_cancelled

    if (max_running or wait) and not any(node.runs_jobs for node in await service.nodes()):
        print_notice("the runs wait for a node: start one with `tokimori serve`")
    before = await service.backfill(job_id, *moments, dry_run=True)
    told = ""
    while True:
        done = await service.backfill(job_id, *moments, max_running=max_running)
        told = _tell(done, told)
        if was_cancelled(before, done):
            print_notice("somebody cancelled this backfill: nothing more is made")
            return done
        if not done.missing and not (wait and done.active):
            return done
        await asyncio.sleep(STEP)


def _tell(done: "Backfill", told: str) -> str:
    """Say how far it is, where that is news."""
    news = _progress(done)
    if news != told and (done.missing or done.active):
        print_notice(news)
    return news


def _progress(done: "Backfill") -> str:
    states = ", ".join(f"{count} {state}" for state, count in sorted(done.states.items())) or "none yet"
    return f"{len(done.runs)} of {len(done.runs) + len(done.missing)} made: {states}"


def _succeeded(done: "Backfill") -> bool:
    from tokimori.model.transitions import RunState

    return set(done.states) <= {RunState.SUCCEEDED}


def _print(done: "Backfill", *, dry_run: bool) -> None:
    from tokimori.service.views import backfill_view

    if options().as_json:
        print_json(backfill_view(done))
        return
    if dry_run:
        print_table(("TIME", "BACKFILL"), _rows(done))
        print_lines(f"would make {len(done.missing)}; {_progress(done)}; {len(done.left_out)} left out")
        return
    print_lines(f"{_progress(done)}; {len(done.left_out)} left out")


def _rows(done: "Backfill") -> list[tuple[str, str]]:
    """Every occurrence of the range, and what is done about it."""
    zone = done.job.definition.time_zone
    found = [(moment, "to be made") for moment in done.missing]
    found += [(run.nominal, f"made: run {run.id} {run.state}") for run in done.runs]
    found += [
        (each.nominal, f"left out: {each.reason}" + (f", {each.run.id} {each.run.state}" if each.run else ""))
        for each in done.left_out
    ]
    return [(local(moment, zone), text) for moment, text in sorted(found)]
