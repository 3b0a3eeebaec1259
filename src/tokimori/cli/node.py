"""`tokimori node …`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.listing import Row, listing, print_list
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import in_service, load
from tokimori.cli.table import At, Id, State
from tokimori.ports.nodes import NodeState

if TYPE_CHECKING:
    from tokimori.ports.nodes import NodeRecord
    from tokimori.service.service import Service

node = Group(
    "node",
    help="Nodes: the processes that take part.",
    nouns={
        "drain": ("tokimori.cli.orders:drain", "Let a node take no new runs; what it runs goes on."),
        "resume": ("tokimori.cli.orders:resume", "Let a node take runs again."),
        "stop": ("tokimori.cli.orders:stop", "Shut down a node, wherever it is."),
    },
    sections={"Look": ("list", "address"), "Order": ("drain", "resume", "stop")},
)

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

    from tokimori.service.views.nodes import NodeView

    zone, nodes = in_service(_nodes)
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


async def _nodes(service: "Service") -> "tuple[str, Sequence[NodeRecord]]":
    return service.time_zone, await service.nodes.list()


@node.command("address")
@click.option("--header", is_flag=True, help="Print the line that lets a program in: `… --header | curl -H @- URL`.")
def address(*, header: bool) -> None:
    """Print the address of each node with this state folder, with the secret that lets a browser in.

    Anybody who reads it may run commands as the user of the node.
    """
    from tokimori.errors import NotFound
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
    if options().as_json:
        print_json(found)
    else:
        print_lines(*found)
