"""Nodes as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.ports.nodes import NodeRecord
from tokimori.service.views.stamps import stamp


class NodeView(Struct, frozen=True, kw_only=True):
    """A node. Its `kind` is `program` if it runs no jobs, but holds permits or waits for them.

    `drained`: it was told to take no new runs.
    """

    id: str
    kind: str
    host: str
    boot_id: str
    pid: int
    labels: dict[str, str]
    concurrency: int
    version: str
    state: str
    beat: int
    started: str
    left: str | None
    drained: bool = False


def node_view(node: NodeRecord) -> NodeView:
    """Return the node as JSON shows it."""
    return NodeView(
        id=node.id,
        kind="program" if node.is_program else "node",
        host=node.host,
        boot_id=node.boot_id,
        pid=node.pid,
        labels=node.labels,
        concurrency=node.concurrency,
        version=node.version,
        state=node.state.value,
        beat=node.beat,
        started=format_moment(node.started),
        left=stamp(node.left),
        drained=node.drained,
    )
