"""`tokimori job pause`, `resume`, `resolve`: of one job, or of all that match; `rewind`, `copy` and `rename`."""

import click

from tokimori.cli.bulk import for_each_matching, is_pattern, yes_option
from tokimori.cli.command import Command
from tokimori.cli.completing import job_ids
from tokimori.cli.ending import DONE
from tokimori.cli.job_printing import print_job
from tokimori.cli.output import print_notice
from tokimori.cli.session import in_service

_job_or_pattern = click.argument("job_id", metavar="ID|PATTERN", shell_complete=job_ids)
_job = click.argument("job_id", metavar="ID", shell_complete=job_ids)


@click.command(cls=Command)
@_job_or_pattern
@click.option("--reason", metavar="TEXT", help="Shown with the job while it is paused.")
@click.option("--now", is_flag=True, help="Cancel its running runs, instead of letting them finish.")
@yes_option
def pause(job_id: str, *, reason: str | None, now: bool, yes: bool) -> int:
    """Pause a job: nothing of it starts until it is resumed. 'etl-*' means all jobs whose ids match."""
    if is_pattern(job_id):
        return for_each_matching(
            job_id, "pause", "paused", lambda s, each: s.jobs.pause(each, reason, now=now), yes=yes
        )
    paused = in_service(lambda service: service.jobs.pause(job_id, reason, now=now))
    if reason is not None and paused.reason != reason:
        since = "without a reason" if paused.reason is None else f"for this reason, which stays: {paused.reason}"
        print_notice(f"{job_id} was paused before, {since}; `tokimori job resume {job_id}` first gives another")
    print_job("paused", paused)
    return DONE


@click.command(cls=Command)
@_job_or_pattern
@yes_option
def resume(job_id: str, *, yes: bool) -> int:
    """Resume a paused job, or all that match. What it missed is recorded as skipped, and does not run."""
    if is_pattern(job_id):
        return for_each_matching(job_id, "resume", "resumed", lambda service, each: service.jobs.resume(each), yes=yes)
    print_job("resumed", in_service(lambda service: service.jobs.resume(job_id)))
    return DONE


@click.command(cls=Command)
@_job
def resolve(job_id: str) -> None:
    """Enable a job that a failure has parked, once the cause is fixed."""
    print_job("resolved", in_service(lambda service: service.jobs.resolve(job_id)))


@click.command(cls=Command)
@_job
def rewind(job_id: str) -> None:
    """Put a job back to now that a clock which was ahead has put ahead. Nodes do so themselves where it is safe.

    Where `tokimori doctor` names the job for over two minutes, some of what it ran ahead was pruned, or it was over
    10,000 runs: what is not known to have run comes again.
    """
    print_job("put back", in_service(lambda service: service.jobs.rewind(job_id)))


@click.command(cls=Command)
@_job
@click.argument("new_id", metavar="NEW-ID")
def copy(job_id: str, new_id: str) -> None:
    """Add a job with the definition of another one. It is paused where the other one is paused or parked."""
    print_job(f"copied {job_id} to", in_service(lambda service: service.jobs.copy(job_id, new_id)))


@click.command(cls=Command)
@_job
@click.argument("new_id", metavar="NEW-ID")
def rename(job_id: str, new_id: str) -> None:
    """Give a job another id. Its schedule goes on, and jobs that name it name the new id.

    Its runs so far stay under the old id. If this is interrupted, the job stays paused, and the same command goes on.
    """
    print_job(f"renamed {job_id} to", in_service(lambda service: service.jobs.rename(job_id, new_id)))
