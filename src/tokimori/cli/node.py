"""`tokimori node …`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokimori.cli.command import Group, options
from tokimori.cli.output import local, print_json, print_table
from tokimori.cli.session import in_service

if TYPE_CHECKING:
    from tokimori.ports.nodes import NodeRecord
    from tokimori.service.service import Service

node = Group("node", help="Nodes: the processes that take part.")


@node.command("list")
def list_nodes() -> None:
    """List nodes, living ones first, and the programs that hold or wait for permits."""

    from tokimori.service.views.nodes import node_view

    zone, nodes = in_service(_nodes)
    if options().as_json:
        print_json([node_view(each) for each in nodes])
        return
    rows = [
        (
            each.id,
            "program" if each.is_program else "node",
            each.state.value,
            each.host,
            each.pid,
            None if each.is_program else each.concurrency,
            local(each.started, zone),
            local(each.left, zone),
            ", ".join(f"{name}={value}" for name, value in each.labels.items()),
        )
        for each in nodes
    ]
    print_table(("ID", "KIND", "STATE", "HOST", "PID", "CONCURRENCY", "STARTED", "LEFT", "LABELS"), rows)


async def _nodes(service: "Service") -> "tuple[str, Sequence[NodeRecord]]":
    return service.time_zone, await service.nodes()
