"""`tokimori job list`"""

from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from tokimori.cli.command import Command
from tokimori.cli.job_printing import next_cell, shown_value
from tokimori.cli.listing import Row, listing, print_list
from tokimori.cli.session import in_service
from tokimori.cli.table import At, State

if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.service.finding import JobSearch
    from tokimori.service.service import Service

_STATES = ("enabled", "paused", "parked", "finished")
"""In which states listed jobs may be."""
_COLUMNS = ("ID", "STATE", "SCHEDULE", "NEXT", "COMMAND")


@click.command("list", cls=Command)
@click.option("--state", multiple=True, type=click.Choice(_STATES), help="In this state; may be repeated.")
@click.option("--prefix", metavar="TEXT", help="Only jobs whose ids begin with this.")
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="With this label; may be repeated.")
@click.option("--owner", metavar="TEXT", help="Only jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@listing(_COLUMNS)
def list_jobs(**filters: Any) -> None:
    """List jobs by id: all of them, or those that have all that is said."""

    from tokimori.model.job import JobState
    from tokimori.service.finding import JobSearch
    from tokimori.service.views.jobs import job_view

    wanted = JobSearch(**{**filters, "state": frozenset(map(JobState, filters["state"]))}, limit=1_000)
    jobs = in_service(lambda service: _all_jobs(service, wanted))
    print_list(_COLUMNS, [(each, [_row(each)]) for each in jobs], job_view, spare=("COMMAND", "SCHEDULE"))


def _row(found: "Job") -> Row:
    shown = found.definition.name or _command(found)
    return (found.id, State(found.state.value), found.definition.schedule, _next(found), shown)


async def _all_jobs(service: "Service", wanted: "JobSearch") -> "list[Job]":
    found = await service.jobs.find(wanted)
    jobs = list(found.jobs)
    while found.next is not None:
        found = await service.jobs.find(structs.replace(wanted, after=found.next))
        jobs += found.jobs
    return jobs


def _next(found: "Job") -> At | str:
    """Return its next moment, or the jobs after which it runs."""
    if found.definition.parents:
        return f"after {', '.join(dict.fromkeys(parent.job for parent in found.definition.parents))}"
    return next_cell(found)


def _command(found: "Job") -> str:
    from tokimori.service.definitions import fields_of

    fields = fields_of(found.definition)
    if "url" in fields:
        return f"{fields.get('method', 'POST' if 'body' in fields else 'GET')} {fields['url']}"
    kind = next((kind for kind in ("function", "build") if kind in fields), None)
    return shown_value(fields.get("command", "noop")) if kind is None else f"{kind} {dict(fields)[kind]}"
