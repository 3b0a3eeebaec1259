"""`tokimori export …`: jobs, and what they need, as text that other programs, or Tokimori again, can read."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Group, options
from tokimori.cli.completion import zones
from tokimori.cli.output import print_json, print_notice, print_text
from tokimori.cli.session import in_service

if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.service.service import Service
    from tokimori.service.sets.resource_kinds import Resources

export = Group("export", help="Write jobs as text: all, or those with the given ids.")


@export.command()
@click.argument("job_ids", metavar="[ID...]", nargs=-1)
@click.option("--system", is_flag=True, help="A system crontab: each line names a user.")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone of the machine that runs cron; by default this one's.",
)
def crontab(job_ids: tuple[str, ...], system: bool, time_zone: str | None) -> None:
    """Write a crontab. A job that cron can't run becomes a comment, with the reason."""
    from tokimori.cli.moment import machine_zone
    from tokimori.schedules.zones import check_zone
    from tokimori.translators.crontab_export import write_crontab

    zone = machine_zone(os.environ) if time_zone is None else check_zone(time_zone)
    jobs = in_service(lambda service: _read(service, job_ids))
    exported = write_crontab(jobs, zone=zone, system=system)
    if options().as_json:
        print_json({"crontab": exported.text, "left_out": exported.left_out})
        return
    print_text(exported.text)
    if exported.left_out:
        print_notice(f"note: {len(exported.left_out)} of {len(jobs)} jobs can't be run by cron: see the comments")
    if "\nCRON_TZ=" in exported.text:
        print_notice("note: CRON_TZ is known to cronie, but not to Debian's cron")
    if "\\\\" in exported.text:
        print_notice("note: \\\\ is one backslash to Debian's cron, for which this is written, and two to others")


_of_set = click.option("--set", "name", metavar="NAME", help="Only what is of this set, for `tokimori apply`.")


@export.command()
@click.argument("job_ids", metavar="[ID...]", nargs=-1)
@_of_set
def toml(job_ids: tuple[str, ...], name: str | None) -> None:
    """Write jobs, calendars, pauses of queues and limits of semaphores as TOML, which `tokimori apply` reads."""
    from tokimori.service.definitions.toml import write_toml

    jobs, resources = _exported(job_ids, name)
    text = write_toml(_definitions(jobs), name, resources)
    if options().as_json:
        print_json({"toml": text})
    else:
        print_text(text)


@export.command("json")
@click.argument("job_ids", metavar="[ID...]", nargs=-1)
@_of_set
def as_json(job_ids: tuple[str, ...], name: str | None) -> None:
    """Write the same as JSON, which `tokimori apply` reads, too; each of `jobs` can be sent to POST /api/v2/jobs."""
    jobs, resources = _exported(job_ids, name)
    print_json({**({} if name is None else {"set": name}), **resources, "jobs": _definitions(jobs)})


def _exported(job_ids: Sequence[str], name: str | None) -> "tuple[list[Job], dict[str, Any]]":
    """Return the jobs, and the other resources by kind and name, which are empty if single jobs are named."""
    from msgspec.structs import asdict

    from tokimori.model.job import set_of

    async def act(service: "Service") -> "tuple[list[Job], Resources | None]":
        return await _read(service, job_ids), None if job_ids else await service.sets.resources(name)

    jobs, resources = in_service(act)
    found = {} if resources is None else asdict(resources)
    wanted = [job for job in jobs if name in (None, set_of(job.definition))]
    return wanted, {part: each for part, each in found.items() if each}


async def _read(service: "Service", job_ids: Sequence[str]) -> "list[Job]":
    if job_ids:
        return [await service.jobs.get(job_id) for job_id in job_ids]
    from tokimori.service.search.jobs import every_job

    return [job async for job in every_job(service.jobs.list)]


def _definitions(jobs: "Sequence[Job]") -> list[dict[str, Any]]:
    from tokimori.model.job import JobState
    from tokimori.model.target import Unreadable
    from tokimori.service.definitions.definitions import job_fields_of

    unreadable = [job.id for job in jobs if isinstance(job.definition.target, Unreadable)]
    if unreadable:
        print_notice(f"note: left out, as this version can't read their definitions: {', '.join(unreadable)}")
    paused = [job.id for job in jobs if job.state is not JobState.ENABLED]
    if paused and not options().as_json:
        print_notice(f"note: these jobs are not enabled, but the export does not say so: {', '.join(paused)}")
    return [{"id": job.id, **job_fields_of(job)} for job in jobs if job.id not in unreadable]
