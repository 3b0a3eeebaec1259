"""`tokimori run report …`: how a command reports its own end. It needs no store, only the file that its node reads."""

import os
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.moment import Length
from tokimori.cli.output import print_json

if TYPE_CHECKING:
    from tokimori.executors.reported import ReportedEnd

report = Group(
    "report", help="Report, from within a run, how it ended; the last report counts, once the command exits."
)


@report.command()
@click.option("--result", metavar="TEXT", help="The payload for the runs of the jobs that run after this one.")
def succeeded(result: str | None) -> None:
    """Report success of this run; the exit code then means nothing."""

    from tokimori.executors.reported import ReportSucceeded

    _leave(ReportSucceeded(result))


@report.command()
@click.argument("error", metavar="TEXT")
@click.option("--no-retry", is_flag=True, help="End for good, however many attempts the job has left.")
def failed(error: str, no_retry: bool) -> None:
    """Report failure of this run; the exit code then means nothing. It is retried as the job allows."""

    from tokimori.executors.reported import ReportFailed

    _leave(ReportFailed(error, retry=not no_retry))


@report.command()
@click.option("--at", metavar="TIME", help="Not before this time, such as 2030-01-01T00:00:00Z.")
@click.option("--in", "seconds", type=Length(), metavar="LENGTH", help="Not before so long after the command's end.")
def retry(at: str | None, seconds: float | None) -> None:
    """Request a retry of the run. It counts as one of the job's --asked-retries, not as one of its attempts."""

    from tokimori.executors.reported import ReportRetry

    _leave(ReportRetry(at=at, seconds=seconds))


@report.command()
@click.argument("reason", metavar="REASON")
def hold(reason: str) -> None:
    """Hold this run until a person resumes it (`tokimori run resume`)."""

    from tokimori.executors.reported import ReportHold

    _leave(ReportHold(reason))


def _leave(reported: "ReportedEnd") -> None:
    from tokimori.executors.reported import leave

    leave(reported, os.environ)
    if options().as_json:
        print_json(reported)
