"""`tokimori node …`"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.output import print_answer, print_json, print_lines
from tokimori.cli.session import in_service, load, with_zone
from tokimori.cli.table import At, Id, Row, State, listing, print_list
from tokimori.errors import InvalidInput, NotFound
from tokimori.ports.nodes import NodeState

if TYPE_CHECKING:
    from tokimori.ports.nodes import NodeRecord
    from tokimori.service.service import Service

node = Group(
    "node",
    help="Nodes: the processes that take part.",
    nouns={
        "drain": ("tokimori.cli.node:drain", "Let a node take no new runs; what it runs goes on."),
        "resume": ("tokimori.cli.node:resume", "Let a node take runs again."),
        "stop": ("tokimori.cli.node:stop", "Shut down a node, wherever it is."),
    },
    sections={"Look": ("list", "address"), "Order": ("drain", "resume", "stop")},
)

_node = click.argument("node_id", metavar="ID", required=False)
_all = click.option("--all", "all_nodes", is_flag=True, help="All nodes that live now.")
_COLUMNS = ("ID", "KIND", "STATE", "HOST", "PID", "CONCURRENCY", "STARTED", "LEFT", "LABELS")
_SPARE = ("CONCURRENCY", "PID", "LEFT", "KIND")
"""What a narrow terminal does without, the first one first."""
_DRAINED = "drained"
_STATES = (*(state.value for state in NodeState), _DRAINED)


@node.command("list")
@click.option("--state", type=click.Choice(_STATES), help="Only those in this state.")
@listing(_COLUMNS)
def list_nodes(state: str | None) -> None:
    """List nodes, living ones first, and the programs that hold or wait for permits."""

    from tokimori.service.views.nodes import NodeRecord as NodeView

    zone, nodes = with_zone(lambda service: service.nodes.list())
    listed = [(each, [_row(each, zone)]) for each in nodes if state in {None, _state(each)}]
    print_list(_COLUMNS, listed, NodeView.made, spare=_SPARE)


def _state(each: "NodeRecord") -> str:
    return _DRAINED if each.drained else each.state.value


def _row(each: "NodeRecord", zone: str) -> Row:
    return (
        Id(each.id),
        "program" if each.is_program else "node",
        State(_state(each)),
        each.host,
        each.pid,
        None if each.is_program else each.concurrency,
        At(each.started, zone),
        At(each.left, zone),
        ", ".join(f"{name}={value}" for name, value in each.labels.items()),
    )


@node.command("address")
@click.option("--header", is_flag=True, help="Print the line that lets a program in: `… --header | curl -H @- URL`.")
def address(*, header: bool) -> None:
    """Print the address of each node with this state folder, with the secret that logs a browser in.

    Anybody who reads it may run commands as the user of the node.
    """
    from tokimori.node.open_doors import entry, open_doors
    from tokimori.node.secret_file import secret_of

    settings = load().settings
    folder = settings.state_dir
    secret = secret_of(settings.http, folder)
    if header:
        line = f"Authorization: Bearer {secret}"
        print_json(line) if options().as_json else print_lines(line)
        return
    found = [entry(each, secret) for each in open_doors(folder)]
    if not found:
        message = f"no node with the state folder {folder} answers over HTTP: `tokimori serve` starts one"
        raise NotFound(message, field="state_dir", value=str(folder), allowed="the state folder of a node that runs")
    print_answer(found, *found)


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
    done: str,
    *,
    all_nodes: bool,
) -> None:
    from tokimori.service.views.nodes import NodeRecord as NodeView

    if (node_id is None) is not all_nodes:
        message = "node: say which one: its ID, or --all"
        raise InvalidInput(message, field="node", value=node_id, allowed="an ID (see `tokimori node list`), or --all")

    async def order(service: "Service") -> "Sequence[NodeRecord]":
        return await act(service, None if node_id is None else await _whole(service, node_id))

    nodes = in_service(order)
    if options().as_json:
        print_json([NodeView.made(node) for node in nodes])
        return
    print_lines(*(f"node {node.id} on {node.host} {done}" for node in nodes))
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
