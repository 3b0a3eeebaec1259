"""`tokimori run report …`: how a command says how it ended. It needs no store, only the file that its node reads."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_json
from tokimori.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from tokimori.executors.reported import ReportedEnd

FILE = "TOKIMORI_OUTCOME_FILE"

report = Group("report", help="Say from within a run how it ended; the last word counts, once the command exits.")


@report.command()
@click.option("--result", metavar="TEXT", help="The payload of the runs that come after this one.")
def succeeded(result: str | None) -> None:
    """It did what it should, whatever its exit code."""

    from tokimori.executors.reported import ReportSucceeded

    _leave(ReportSucceeded(result))


@report.command()
@click.argument("error", metavar="TEXT")
def failed(error: str) -> None:
    """It did not, whatever its exit code; it is tried again as the job's retries allow."""

    from tokimori.executors.reported import ReportFailed

    _leave(ReportFailed(error))


@report.command()
@click.option("--at", metavar="TIME", help="Not before; with offset, such as 2030-01-01T00:00:00Z.")
@click.option("--in", "seconds", type=float, metavar="SECONDS", help="Not before so long after its end.")
def retry(at: str | None, seconds: float | None) -> None:
    """It is to be tried again, at no cost to the job's retries."""

    from tokimori.executors.reported import ReportRetry

    _leave(ReportRetry(at=at, seconds=seconds))


@report.command()
@click.argument("reason", metavar="REASON")
def hold(reason: str) -> None:
    """A person has to look at it; `tokimori run resume` lets it go on."""

    from tokimori.executors.reported import ReportHold

    _leave(ReportHold(reason))


def _leave(reported: "ReportedEnd") -> None:
    """Put the line in place at once: a node never reads half of it."""

    from tokimori.executors.reported import line_of

    line = line_of(reported)
    path = os.environ.get(FILE)
    if not path:
        raise InvalidInput(f"{FILE} is not set", field=FILE, allowed="to be called by the command of a run")
    beside = Path(f"{path}.{os.getpid()}")
    try:
        beside.write_bytes(line)
        beside.replace(path)
    except OSError as fault:
        raise Refused(f"{path} can't be written: {fault.strerror}", field=FILE, value=path) from None
    if options().as_json:
        print_json(reported)
