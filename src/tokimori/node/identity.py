"""Identity of a node."""

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.engine.trim import KeptEntries
from tokimori.model.handlers import Handler, handlers_text
from tokimori.model.ids import Lane, NodeId
from tokimori.model.lanes import (
    DRAINING_LABEL,
    HANDLERS_LABEL,
    ONLY_LABEL,
    SHORT_LABEL,
    SILENT_LABEL,
    UNABLE_LABEL,
    handler_of,
    serves,
)
from tokimori.ports.nodes import NodeRecord, NodeState

MOST_WORDS = 200
"""Characters of why a node can start no function, or no run, that others are shown."""


class Identity(Struct, frozen=True, kw_only=True):
    """Identity of a node. `handlers`: those that it has, by name or by a pattern of whole names.

    `only_handlers`: it runs nothing but what these are for. `unable`: why it can start none of them now, empty: it can.
    `short`: what its machine lacks to begin any run, empty: nothing. `draining`: which of its worker processes are
    drained, because of which run, and until when; `silent`: which do not answer, because of which runs, and since when.
    While its machine has a load above `max_load`, it claims nothing (None: it always does). `audit_kept`: it deletes
    entries of the audit log older than so many days; 0: none. `messages`: when it deletes those of channels.
    """

    host: str
    boot_id: str
    pid: int
    version: str
    labels: dict[str, str] = field(default_factory=dict)
    handlers: tuple[Handler, ...] = ()
    only_handlers: bool = False
    unable: str = ""
    draining: str = ""
    short: str = ""
    silent: str = ""
    concurrency: int = 32
    max_load: float | None = None
    stop_grace: float = 30.0
    audit_kept: int = 0
    messages: KeptEntries = KeptEntries()

    @property
    def blocking(self) -> list[str]:
        """Return the runs that block each worker process which does not answer."""
        return [told.split(" ")[1] for told in filter(None, self.silent.split("; "))]

    def serves(self, lane: Lane) -> bool:
        """Return whether this node may run what waits in the lane."""
        return serves(self.labels, lane, self.handlers) and not (self.only_handlers and handler_of(lane) == "")

    def record(self, node_id: NodeId, started: Moment) -> NodeRecord:
        """With what it joins the store."""
        told = {HANDLERS_LABEL: handlers_text(self.handlers)} if self.handlers else {}
        told |= {ONLY_LABEL: "yes"} if self.only_handlers else {}
        told |= {DRAINING_LABEL: self.draining} if self.draining else {}
        told |= {SILENT_LABEL: self.silent} if self.silent else {}
        told |= {UNABLE_LABEL: _first_line(self.unable)} if self.unable else {}
        told |= {SHORT_LABEL: _first_line(self.short)} if self.short else {}
        return NodeRecord(
            id=node_id,
            host=self.host,
            boot_id=self.boot_id,
            pid=self.pid,
            labels={**self.labels, **told},
            concurrency=self.concurrency,
            version=self.version,
            started=started,
            state=NodeState.ALIVE,
        )


def _first_line(why: str) -> str:
    return why.partition("\n")[0][:MOST_WORDS]
