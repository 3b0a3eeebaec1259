"""`tokimori job add` and `job update`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import CommandWithArguments
from tokimori.cli.completing import job_ids
from tokimori.cli.ending import DONE
from tokimori.cli.job_options import SECTIONS, fields_given, job_options, with_moments
from tokimori.cli.job_printing import SHOWN_MOMENTS, print_job
from tokimori.cli.session import Absent, in_service
from tokimori.clock import Moment, SystemClock
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.service.service import Service


@click.command(
    cls=CommandWithArguments,
    sections=SECTIONS,
    examples=(
        ("job add nightly --schedule '0 3 * * *' --timezone Europe/Paris --command 'make report'", ""),
        ("job add import --schedule 'every 10 minutes' --attempts 3 --retry-delay 30s -- ./import.py --all", ""),
        ("job add alert --url https://example.org/hook --after import=failure", "when another one has failed"),
        ("job add -e", "in an editor"),
    ),
)
@click.argument("job_id", metavar="ID", required=False, shell_complete=job_ids)
@job_options
@click.option("-e", "--edit", "in_editor", is_flag=True, help="Write it as a text in $VISUAL or $EDITOR.")
@click.option("--yes", is_flag=True, help="With --edit: do not ask.")
def add(job_id: str | None, *, in_editor: bool, yes: bool, **values: Any) -> int:
    """Add a job: --command TEXT, or a program and its arguments after --; or -e, in an editor."""
    fields = fields_given(values)
    if in_editor:
        from tokimori.cli.job_edit import add_in_editor

        return add_in_editor(job_id, with_moments(fields, SystemClock().now()), yes=yes)
    if job_id is None:
        raise click.UsageError("Missing argument 'ID'; or -e, to write the job in an editor")

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment]]":
        added = await service.jobs.add(job_id, **with_moments(fields, await service.db.now()))
        return added, await service.jobs.next(added.id, SHOWN_MOMENTS)

    print_job("added", *in_service(act, Absent.MADE))
    return DONE


@click.command(
    cls=CommandWithArguments,
    sections=SECTIONS,
    examples=(
        ("job update nightly --schedule @daily", ""),
        ("job update nightly --unset timeout", "back to its default"),
    ),
)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@job_options
@click.option("--unset", multiple=True, metavar="FIELD", help="Set a field back to its default.")
def update(job_id: str, unset: tuple[str, ...], **values: Any) -> None:
    """Change fields of a job; other fields stay. --env and --label are added to those that it has."""
    changes = {**fields_given(values), **dict.fromkeys(unset)}
    if not changes:
        raise InvalidInput("nothing to change", allowed="at least one field")

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment]]":
        changed = await service.jobs.update(job_id, **with_moments(changes, await service.db.now()))
        return changed, await service.jobs.next(changed.id, SHOWN_MOMENTS)

    print_job("updated", *in_service(act))
