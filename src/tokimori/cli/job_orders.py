"""`tokimori job pause`, `resume`, `resolve`: of a job, or of all that match; `delete`, `cancel`, `rename`, others."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tokimori.cli.bulk import confirm, for_each_matching, is_pattern, yes_option
from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.errors import DONE, RUN_FAILED
from tokimori.cli.job_printing import print_job
from tokimori.cli.output import print_answer, print_json, print_lines, print_notice
from tokimori.cli.progress import counting
from tokimori.cli.session import in_service
from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.service.service import Service


@click.command(cls=Command)
@click.argument("job_id", metavar="[ID|PATTERN]", required=False, shell_complete=job_ids)
@click.option("--cascade", is_flag=True, help="Also delete the jobs that run only after it.")
@click.option("--now", is_flag=True, help="Also cancel its running runs, instead of letting them finish.")
@click.option("--force", is_flag=True, help="Also a notifier that jobs name.")
@click.option("--all", "everything", is_flag=True, help="Delete all jobs: shows how many, and asks first.")
@click.option("--yes", is_flag=True, help="With --all or a pattern: do not ask.")
@click.option("--dry-run", is_flag=True, help="With --all: only show which.")
def delete(
    job_id: str | None, *, cascade: bool, now: bool, force: bool, everything: bool, yes: bool, dry_run: bool
) -> int:
    """Delete a job, all whose ids match ('etl-*'), or all. Runs that have not started are cancelled.

    --all deletes the jobs that are there when it begins, one after the other, each after those that run after it. If it
    is interrupted, the same command goes on with those that are left.
    """
    if everything:
        _check(job_id is None and not cascade and not force, "all", "--all goes without an ID, --cascade and --force")
        return _delete_all(now=now, yes=yes, dry_run=dry_run)
    _check(job_id is not None, "id", "say which: the ID of a job, or --all")
    _check(not dry_run, "all", "--dry-run goes only with --all")
    if is_pattern(str(job_id)):
        return for_each_matching(
            str(job_id), "delete", "deleted", lambda s, each: _see_gone(s, each, cascade, now, force), yes=yes
        )
    _check(not yes, "all", "--yes goes only with --all or a pattern")
    in_service(lambda service: service.jobs.delete(str(job_id), cascade=cascade, now=now, force=force))
    print_answer({"id": job_id, "deleted": True}, f"deleted {job_id}")
    return DONE


async def _see_gone(service: "Service", job_id: str, cascade: bool, now: bool, force: bool) -> None:
    """Delete one of several jobs. It may be gone already, together with a parent."""
    with suppress(NotFound):
        await service.jobs.delete(job_id, cascade=cascade, now=now, force=force)


def _check(right: bool, field: str, rule: str) -> None:
    if not right:
        raise InvalidInput(rule, field=field, allowed=rule)


def _delete_all(*, now: bool, yes: bool, dry_run: bool) -> int:
    """Show what would be deleted, ask, and delete it."""
    until, found = in_service(_all_jobs)
    if dry_run:
        _print([], {}, found)
        return DONE
    if found:
        confirm(found, "delete", field="all", yes=yes)
    ids, kept = in_service(lambda service: _in_pieces(service, until, len(found), now=now)) if found else ([], {})
    _print(ids, kept, None)
    return RUN_FAILED if kept else DONE


async def _all_jobs(service: "Service") -> tuple[Moment, list[str]]:
    """Return the ids of all jobs, and up to which moment they were added."""
    part = await service.jobs.delete_some(dry_run=True)
    until, ids = part.until, [str(job.id) for job in part.jobs]
    while part.next is not None:
        part = await service.jobs.delete_some(dry_run=True, after=part.next, until=until)
        ids += [job.id for job in part.jobs]
    return until, ids


async def _in_pieces(service: "Service", until: Moment, total: int, *, now: bool) -> tuple[list[str], dict[str, str]]:
    """Delete the jobs that existed at that moment, with a progress bar; return their ids, and by id the reasons of
    those that stay.
    """
    from tokimori.service.jobs.deleting import CONFIRMED

    with counting("delete", "jobs") as advance:
        part = await service.jobs.delete_some(CONFIRMED, until=until, now=now)
        ids, kept = [str(job.id) for job in part.jobs], dict(part.kept)
        while part.next is not None:
            advance(len(ids), total)
            if not sys.stderr.isatty():  # a terminal has a bar
                print_notice(f"{len(ids)} of {total} deleted")
            part = await service.jobs.delete_some(CONFIRMED, after=part.next, until=until, now=now)
            ids += [job.id for job in part.jobs]
            kept |= part.kept
    return ids, kept


def _print(ids: Sequence[str], kept: Mapping[str, str], found: Sequence[str] | None) -> None:
    """Print the deleted jobs and those that stay; for a dry run those that would be (`found`)."""
    if options().as_json:
        print_json({"deleted": ids, "kept": kept} if found is None else {"would_delete": found})
        return
    if found is not None:
        print_lines(*found, f"would delete {amount(len(found), 'job')}")
        return
    for job_id, why in kept.items():
        print_notice(f"job {job_id} was not deleted: {why}")
    print_lines(f"deleted {amount(len(ids), 'job')}")


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
    """Resume a paused job, or all that match. Missed occurrences are recorded as skipped, and do not run."""
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
    """Reset a job to now after a clock that was ahead has moved it into the future. Nodes do so if it is safe.

    Use this if `tokimori doctor` names the job for over two minutes: some runs of the future were pruned, or there were
    over 10,000. Moments without a known run come again.
    """
    print_job("put back", in_service(lambda service: service.jobs.rewind(job_id)))


@click.command(cls=Command)
@_job
@click.argument("new_id", metavar="NEW-ID")
def copy(job_id: str, new_id: str) -> None:
    """Add a job with the definition of another one. It is paused if the other one is paused or parked."""
    print_job(f"copied {job_id} to", in_service(lambda service: service.jobs.copy(job_id, new_id)))


@click.command(cls=Command)
@_job
@click.argument("new_id", metavar="NEW-ID")
def rename(job_id: str, new_id: str) -> None:
    """Give a job another id. Its schedule goes on, and jobs that name it name the new id.

    Its runs so far stay under the old id. After an interruption the job stays paused; repeat the command.
    """
    print_job(f"renamed {job_id} to", in_service(lambda service: service.jobs.rename(job_id, new_id)))


@click.command("cancel", cls=Command)
@_job
@click.option("--reason", metavar="TEXT", default="cancelled by hand", show_default=True, help="Kept with the runs.")
def cancel_job(job_id: str, reason: str) -> None:
    """Cancel all unfinished runs of a job, on every node. The job itself goes on."""
    cancelled = in_service(lambda service: service.jobs.cancel(job_id, reason))
    print_answer(
        {"job_id": job_id, "cancelled": cancelled},
        f"{amount(cancelled, 'run')} of {job_id} cancelled",
    )


@click.command("restart", cls=Command)
@_job
def restart_job(job_id: str) -> None:
    """Restart all running runs of a job: their attempts are ended, and the runs begin anew."""
    from tokimori.service.views.runs import Run

    runs = in_service(lambda service: service.jobs.restart(job_id))
    if options().as_json:
        print_json([Run.made(run) for run in runs])
    else:
        print_lines(*(f"run {run.id}: its node begins it anew" for run in runs))
        print_lines(f"{amount(len(runs), 'run')} of {job_id} restarted")
