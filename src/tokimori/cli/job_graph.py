"""`tokimori job graph`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completing import job_ids
from tokimori.cli.output import print_json, print_lines, print_text
from tokimori.cli.session import in_service
from tokimori.model.ids import check_job_id

if TYPE_CHECKING:
    from tokimori.model.dependents import Edge
    from tokimori.service.service import Service


@click.command(cls=Command)
@click.argument("job_id", metavar="[ID]", required=False, shell_complete=job_ids)
@click.option("--dot", "as_dot", is_flag=True, help="Print it in the DOT language of Graphviz.")
def graph(job_id: str | None, as_dot: bool) -> None:
    """Print which jobs run after which: all, or those before and after one."""
    from tokimori.model.job import JobState
    from tokimori.service.graph import dot, tree
    from tokimori.service.views.jobs import edge_view

    async def act(service: "Service") -> "tuple[Sequence[Edge], str | None]":
        alone = None if job_id is None else await service.jobs.get(job_id)
        note = " (deleted)" if alone is not None and alone.state is JobState.DELETED else ""
        return await service.jobs.graph(job_id), None if alone is None else f"{alone.id}{note}"

    edges, alone = in_service(act)
    if options().as_json:
        print_json([edge_view(edge) for edge in edges])
    elif as_dot:
        print_text(dot(edges, None if job_id is None else check_job_id(job_id)))
    else:
        print_lines(*(tree(edges) or ([] if alone is None else [alone])))
