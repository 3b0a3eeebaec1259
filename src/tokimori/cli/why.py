"""`tokimori job why` and `tokimori run why`: what holds it, and the command that mends it."""

from typing import TYPE_CHECKING

import click

from tokimori.cli.command import options
from tokimori.cli.completion import job_ids, run_ids
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import in_service, with_run

if TYPE_CHECKING:
    from tokimori.service.reasons import Why


@click.command("why")
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
def why_run(run_id: str) -> None:
    """Show the reasons that keep a run from starting or retrying, and the commands that mend them."""
    _print(with_run(run_id, lambda service, whole: service.runs.why(whole)))


@click.command("why")
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def why_job(job_id: str) -> None:
    """Show the reasons that keep the runs of a job from starting, and the commands that mend them."""
    _print(in_service(lambda service: service.jobs.why(job_id)))


def _print(why: "Why") -> None:
    from tokimori.service.reasons import reason_text

    if options().as_json:
        print_json(why)
        return
    what = f"job {why.job_id}" if why.run_id is None else f"run {why.run_id} of job {why.job_id}"
    print_lines(f"{what} is {why.state}")
    print_lines(*([f"- {reason_text(reason)}" for reason in why.reasons] or ["- nothing holds it"]))
