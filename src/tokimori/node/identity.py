"""Who a node is."""

from dataclasses import dataclass, field

from tokimori.clock import Moment
from tokimori.model.ids import NodeId
from tokimori.ports.nodes import NodeRecord, NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a node says of itself."""

    host: str
    boot_id: str
    pid: int
    version: str
    labels: dict[str, str] = field(default_factory=dict)
    concurrency: int = 32
    stop_grace: float = 30.0

    def record(self, node_id: NodeId, started: Moment) -> NodeRecord:
        """With what it joins the store."""
        return NodeRecord(
            id=node_id,
            host=self.host,
            boot_id=self.boot_id,
            pid=self.pid,
            labels=self.labels,
            concurrency=self.concurrency,
            version=self.version,
            started=started,
            state=NodeState.ALIVE,
        )
