"""Nodes as JSON."""

from datetime import datetime
from typing import ClassVar

from tokimori.ports.nodes import NodeState
from tokimori.service.views.outside import Outside, Sources


class NodeRecord(Outside, frozen=True, kw_only=True):
    """A node. Its `kind` is `program` if it runs no jobs, but holds permits or waits for them.

    `drained`: it takes no new runs, by order.
    """

    SOURCES: ClassVar[Sources] = {"kind": lambda node: "program" if node.is_program else "node"}

    id: str
    kind: str
    host: str
    boot_id: str
    pid: int
    labels: dict[str, str]
    concurrency: int
    version: str
    state: NodeState
    beat: int
    started: datetime
    left: datetime | None
    drained: bool = False
