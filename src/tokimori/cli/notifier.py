"""`tokimori notifier …`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, CommandWithArguments, Group
from tokimori.cli.errors import DONE, RUN_FAILED
from tokimori.cli.job_options import SECTIONS, fields_given, job_options
from tokimori.cli.moment import Length
from tokimori.cli.output import print_answer
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import Row, listing, print_list

if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.model.run import Run
    from tokimori.service.service import Service

notifier = Group("notifier", help="Notifiers: jobs that notify people of what happens to other jobs.")

_COLUMNS = ("NAME", "KIND", "BUNDLE", "QUIET", "STATE")


@notifier.command(
    cls=CommandWithArguments,
    sections=SECTIONS,
    examples=(
        ("notifier add ops --url https://example.org/hook --sign-with OPS_KEY", "a signed webhook"),
        ("notifier add mail --email ops@example.org --smtp mail.example.org:587 --sender cron@example.org", ""),
        ("notifier add pager --bundle 1m --quiet 22:00-07:00 -- ./page.sh", "the notification is $TOKIMORI_PAYLOAD"),
    ),
)
@click.argument("notifier_name", metavar="NAME")
@job_options
def add(notifier_name: str, **values: Any) -> None:
    """Add a notifier: a request, an e-mail, a command or a function. Jobs name it with --notify NAME."""
    from tokimori.service.notifiers import id_of, notifier_fields

    fields = notifier_fields(fields_given(values))

    _print(
        "added",
        notifier_name,
        in_service(lambda service: service.jobs.add(id_of(notifier_name), **fields), Absent.MADE),
    )


@notifier.command("list")
@listing(_COLUMNS)
def list_notifiers() -> None:
    """List all notifiers."""
    from tokimori.service.views.jobs import Job as JobView

    print_list(_COLUMNS, [(each, [_row(each)]) for each in in_service(_all)], JobView.made)


def _row(each: "Job") -> Row:
    from tokimori.model.notifier import name_of
    from tokimori.model.target import kind_of

    terms = each.definition.notifier
    quiet, bundle = ("", 0.0) if terms is None else (", ".join(terms.quiet), terms.bundle)
    return name_of(each.id), kind_of(each.definition.target), f"{bundle:g} s" if bundle else "", quiet, each.state


async def _all(service: "Service") -> "Sequence[Job]":
    from tokimori.model.notifier import PREFIX

    return (await service.jobs.list(prefix=PREFIX)).jobs


@notifier.command()
@click.argument("name")
def show(name: str) -> None:
    """Show a notifier, as the job that it is."""
    from tokimori.cli.job_show import print_shown
    from tokimori.service.notifiers import id_of

    print_shown(id_of(name))


@notifier.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also one that jobs name: they notify nobody any more.")
def delete(name: str, *, force: bool) -> None:
    """Delete a notifier that no job names."""
    from tokimori.service.notifiers import id_of

    in_service(lambda service: service.jobs.delete(id_of(name), force=force))
    print_answer({"name": name, "deleted": True}, f"deleted {name}")


@notifier.command(cls=Command, examples=(("notifier test ops", "the exit code is the run's"),))
@click.argument("name")
@click.option("--timeout", type=Length(), metavar="LENGTH", help="How long to wait for its end.")
def test(name: str, timeout: float | None) -> int:
    """Send a trial notification, and wait for its end. A node must run."""
    from tokimori.cli.job_trigger import end_of
    from tokimori.model.transitions import RunState
    from tokimori.service.notifiers import id_of, trial_payload
    from tokimori.service.views.runs import Run as RunView

    async def act(service: "Service") -> "Run":
        job, now = await service.jobs.get(id_of(name)), await service.db.now()
        run = await service.jobs.trigger(job.id, payload=trial_payload(job, name, now))
        return await end_of(service, run.id, timeout)

    run = in_service(act)
    print_answer(RunView.made(run), f"run {run.id} {run.state}" + (f": {run.error}" if run.error else ""))
    return DONE if run.state is RunState.SUCCEEDED else RUN_FAILED


def _print(what: str, name: str, found: "Job") -> None:
    from tokimori.service.views.jobs import Job as JobView

    print_answer(JobView.made(found), f"{what} {name}")
