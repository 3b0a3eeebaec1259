"""`tokimori job import kubernetes`"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.completing import zones
from tokimori.cli.importing import Jobs, finish, name_of, read_all, text_of
from tokimori.model.policies import Overlap
from tokimori.schedules.schedule import Gap
from tokimori.schedules.zones import check_zone

if TYPE_CHECKING:
    from tokimori.translators.kubernetes import Manifest


@click.command(cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    default="UTC",
    help="The zone of jobs without timeZone; UTC by default.",
)
@click.option("--dry-run", is_flag=True, help="Read and show, import nothing.")
def kubernetes(files: tuple[str, ...], time_zone: str, dry_run: bool) -> None:
    """Import Kubernetes CronJobs (YAML); - reads standard input. All files are checked before anything is imported.

    The command of the container runs on a node as it is: images are not run. What a command can't have (volumes,
    secrets, several containers) is refused, with file and line. Jobs that exist already stay as they are.
    """
    check_zone(time_zone)
    manifests: list[Manifest] = []
    jobs = read_all([partial(_jobs_of, file, time_zone, manifests) for file in files])
    suspended = {job.job_id: "suspended in Kubernetes" for each in manifests for job in each.jobs if job.suspended}
    finish(jobs, list(_notes(manifests)), dry_run=dry_run, paused_because=suspended)


def _jobs_of(file: str, zone: str, manifests: "list[Manifest]") -> Jobs:
    """The jobs of a file, whose manifest is added to `manifests`."""
    manifest = _read(file, zone)
    manifests.append(manifest)
    return [(job.job_id, job.definition) for job in manifest.jobs]


def _read(file: str, zone: str) -> "Manifest":
    from tokimori.translators.kubernetes import read_manifest

    return read_manifest(text_of(file), file=name_of(file), zone=zone)


def _notes(manifests: "Sequence[Manifest]") -> Iterator[str]:
    """What is different from Kubernetes."""
    found = [job for manifest in manifests for job in manifest.jobs]
    definitions = [job.definition for job in found]
    yield "the cluster still runs these jobs: suspend them there, or they run twice"
    if images := sorted({job.image for job in found if job.image}):
        yield f"images are not run: a node must have the programs of these images: {', '.join(images)}"
    if paused := [job.job_id for job in found if job.suspended]:
        yield f"suspended, so added paused: {', '.join(paused)}"
    if left_out := sorted({name for job in found for name in job.left_out}):
        yield f"left out, as it matters only to a cluster: {', '.join(left_out)}"
    for other in (other for manifest in manifests for other in manifest.others):
        yield f"{other}: not a CronJob, left out"
    if any(each.on_overlap is Overlap.SKIP and each.max_running == 1 for each in definitions):
        yield "with Forbid, Kubernetes may start an occurrence late, after an earlier run; Tokimori skips it"
    if any(each.gap is Gap.SKIP for each in definitions):
        yield "as in Kubernetes, times that clocks skip do not run, and those that they show twice run twice"
