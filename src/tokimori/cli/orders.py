"""Orders that nodes hear with their next beat: to a run, to all runs of a job, to a node or to all of them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completing import job_ids, run_ids
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.run_id import with_run
from tokimori.cli.session import in_service
from tokimori.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.ports.nodes import NodeRecord
    from tokimori.service.service import Service

_run = click.argument("run_id", metavar="ID", shell_complete=run_ids)
_job = click.argument("job_id", metavar="ID", shell_complete=job_ids)
_node = click.argument("node_id", metavar="ID", required=False)
_all = click.option("--all", "all_nodes", is_flag=True, help="All nodes that live now.")


@click.command("restart", cls=Command)
@_run
def restart_run(run_id: str) -> None:
    """Restart a running run: its attempt is ended, counts for nothing, and the run begins anew on some node."""
    _print_run(with_run(run_id, lambda service, whole: service.runs.restart(whole)), "begins it anew")


@click.command("signal", cls=Command, examples=(('run signal 01a2141f reload --data \'{"level": "debug"}\'', ""),))
@_run
@click.argument("name")
@click.option("--data", metavar="JSON", help="What the function gets with it.")
def signal_run(run_id: str, name: str, data: str | None) -> None:
    """Send a signal to the function of a running run, which receives it by `task.on_signal(NAME, …)`."""
    from tokimori.cli.channels import json_in

    value = None if data is None else json_in("data", data)
    _print_run(with_run(run_id, lambda service, whole: service.runs.signal(whole, name, value)), f"tells it {name}")


def _print_run(run: "Run", what: str) -> None:
    from tokimori.service.views.runs import RunView

    if options().as_json:
        print_json(RunView.made(run))
    else:
        print_lines(f"run {run.id} is {run.state}; its node {what}")


@click.command("cancel", cls=Command)
@_job
@click.option("--reason", metavar="TEXT", default="cancelled by hand", show_default=True, help="Kept with the runs.")
def cancel_job(job_id: str, reason: str) -> None:
    """Cancel all unfinished runs of a job, on every node. The job itself goes on."""
    cancelled = in_service(lambda service: service.jobs.cancel(job_id, reason))
    if options().as_json:
        print_json({"job_id": job_id, "cancelled": cancelled})
    else:
        print_lines(f"{cancelled} run{'' if cancelled == 1 else 's'} of {job_id} cancelled")


@click.command("restart", cls=Command)
@_job
def restart_job(job_id: str) -> None:
    """Restart all running runs of a job: their attempts are ended, and the runs begin anew."""
    from tokimori.service.views.runs import RunView

    runs = in_service(lambda service: service.jobs.restart(job_id))
    if options().as_json:
        print_json([RunView.made(run) for run in runs])
    else:
        print_lines(*(f"run {run.id}: its node begins it anew" for run in runs))
        print_lines(f"{len(runs)} run{'' if len(runs) == 1 else 's'} of {job_id} restarted")


@click.command("drain", cls=Command)
@_node
@_all
def drain(node_id: str | None, *, all_nodes: bool) -> None:
    """Stop a node from taking new runs, until `node resume` or its next start. Its runs go on."""
    _order(node_id, lambda service, node: service.nodes.drain(node), "takes no new runs", all_nodes=all_nodes)


@click.command("resume", cls=Command)
@_node
@_all
def resume(node_id: str | None, *, all_nodes: bool) -> None:
    """Let a node take runs again."""
    _order(node_id, lambda service, node: service.nodes.resume(node), "takes runs again", all_nodes=all_nodes)


@click.command("stop", cls=Command)
@_node
@_all
@click.option("--now", is_flag=True, help="End its runs and hand them back, instead of letting them finish.")
def stop(node_id: str | None, *, all_nodes: bool, now: bool) -> None:
    """Shut down a node: its runs get its grace to finish. What starts nodes, such as systemd, may start it again."""
    _order(node_id, lambda service, node: service.nodes.stop(node, now=now), "stops", all_nodes=all_nodes)


def _order(
    node_id: str | None,
    act: "Callable[[Service, str | None], Awaitable[Sequence[NodeRecord]]]",
    told: str,
    *,
    all_nodes: bool,
) -> None:
    from tokimori.service.views.nodes import NodeView

    if (node_id is None) is not all_nodes:
        message = "node: say which one: its ID, or --all"
        raise InvalidInput(message, field="node", value=node_id, allowed="an ID (see `tokimori node list`), or --all")

    async def order(service: "Service") -> "Sequence[NodeRecord]":
        return await act(service, None if node_id is None else await _whole(service, node_id))

    nodes = in_service(order)
    if options().as_json:
        print_json([NodeView.made(node) for node in nodes])
        return
    print_lines(*(f"node {node.id} on {node.host} {told}" for node in nodes))
    if not nodes:
        print_lines("no node is alive")


async def _whole(service: "Service", text: str) -> str:
    """Return the id of the only living node whose id begins so. Raises `NotFound`, and `InvalidInput` if several do."""
    found = [each.id for each in await service.nodes.list() if each.runs_jobs and each.id.startswith(text.lower())]
    if len(found) > 1:
        message = f"node: the ids of several nodes begin with {text!r}: {', '.join(found[:5])}"
        raise InvalidInput(message, field="node", value=text, allowed="more of the id")
    if not found:
        message = f"no node that is alive has an id that begins with {text!r}"
        raise NotFound(message, field="node", value=text, allowed="See `tokimori node list`.")
    return found[0]
