"""Nodes as people see them, and what they order of nodes: drain, resume, stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.errors import Conflict, NotFound
from tokimori.model.access_token import Role
from tokimori.model.document import Document, new_version
from tokimori.model.ids import NodeId, RandomBytes, check_uuid, uuid7
from tokimori.model.order import DrainNode, ResumeNode, StopNode
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.nodes import Nodes as NodeTable
from tokimori.service.access import OPEN, WHOLE
from tokimori.service.audit import Audit, record
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.operation import ITSELF, Inside, M, Part, operation
from tokimori.service.orders import Orders
from tokimori.service.shared import Caller, Shared
from tokimori.service.validation import MOST_LISTED, flag_of
from tokimori.service.views.nodes import NodeRecord as NodeView
from tokimori.service.views.outside import list_of

LOOK = 0.25
"""Seconds between two looks at the beats of nodes that received an order."""
BEATS = 2
"""Number of beats of a node awaited after an order: the first may have read its peers before the order."""
LONGEST = 5.0
"""Seconds for which it is waited for them. A node whose beats are further apart reads what was ordered meanwhile."""
_BECAME = MappingProxyType({"drain": "drained", "resume": "resumed", "stop": "stopped"})


class Nodes(Part[M]):
    """Nodes, and orders to them. Every operation may raise `StoreError`, and `NotFound` for an unknown node.

    Orders are stored before an operation returns. A node that can't reach the store receives them later.
    """

    noun, word = "nodes", "node"

    def __init__(self, shared: Shared, caller: Caller, audit: Audit[Inside]) -> None:
        self._store, self._now, self._random = shared.store, shared.now, shared.random
        self._orders = Orders(shared, caller)
        self._drained = Documents(shared.store, DRAINED, shared.random)
        self._audit = audit
        self._author = caller.author
        self._rest: Callable[[float], Awaitable[object]] = asyncio.sleep
        """Function that waits these seconds."""

    @operation(Role.READ, OPEN, gives=list_of(NodeView.made))
    async def list(self) -> Sequence[NodeRecord]:
        """Return all nodes and programs: the living ones first, then those that left or died."""
        return await nodes_of(self._store)

    @operation(Role.ADMIN, WHOLE, audit=ITSELF, gives=list_of(NodeView.made))
    async def drain(self, node_id: str | None = None) -> Sequence[NodeRecord]:
        """Stop a node (None: all living nodes) from taking new runs, until `resume` or its next start.

        Its runs go on, and it still fires schedules. Return these nodes.
        """
        nodes = await self._nodes(node_id)
        text = f"{format_moment(await self._now())} {self._author or ''}".rstrip()
        for node in nodes:
            await self._drained.put(node.id, text)
        await self._give_order("drain", nodes, DrainNode(node_id=_one(node_id)))
        await self._forget_the_dead()
        return [replace(node, drained=True) for node in nodes]

    @operation(Role.ADMIN, WHOLE, audit=ITSELF, gives=list_of(NodeView.made))
    async def resume(self, node_id: str | None = None) -> Sequence[NodeRecord]:
        """Let a node (None: all living nodes) take runs again. Return these nodes."""
        nodes = await self._nodes(node_id)
        ids = {node.id for node in nodes}
        drained = [
            each for each in await self._store.list_documents(DRAINED.word, limit=MOST_LISTED) if each.name in ids
        ]
        await self._give_order("resume", nodes, ResumeNode(node_id=_one(node_id)))
        for document in drained:
            with suppress(Conflict):  # somebody has drained it again meanwhile
                await self._drained.delete(document)
        return [replace(node, drained=False) for node in nodes]

    @operation(Role.ADMIN, WHOLE, audit=ITSELF, gives=list_of(NodeView.made))
    async def stop(self, node_id: str | None = None, *, now: bool = False) -> Sequence[NodeRecord]:
        """Shut down a node (None: all living nodes).

        Its runs get the stop grace to finish, with `now` none. Unfinished runs then begin anew elsewhere. A supervisor
        (systemd, say) may start the node again. Return these nodes.
        """
        at_once, nodes = flag_of("now", now), await self._nodes(node_id)
        await self._give_order("stop", nodes, StopNode(node_id=_one(node_id), now=at_once))
        return nodes

    async def _nodes(self, node_id: str | None) -> Sequence[NodeRecord]:
        living = [each for each in await nodes_of(self._store) if each.runs_jobs]
        if node_id is None:
            return living
        wanted = check_uuid(node_id, field="node")
        found = [each for each in living if each.id == wanted]
        if not found:
            message = f"no node {wanted} is alive"
            raise NotFound(message, field="node", value=wanted, allowed="See `tokimori node list`.")
        return found

    async def _give_order(
        self, what: str, nodes: Sequence[NodeRecord], order: DrainNode | ResumeNode | StopNode
    ) -> None:
        """Give an order to nodes, record it, and wait until they have received it, `LONGEST` seconds at most.

        The caller joins for that time as a program, since the beat of an idle node notices a new peer. The order holds
        even if the caller leaves before the nodes have received it: it is recorded first.
        """
        now = await self._now()
        us = NodeRecord(
            id=NodeId(uuid7(now, self._random)),
            host="an order",
            boot_id="",
            pid=0,
            concurrency=0,
            version="",
            started=now,
            state=NodeState.ALIVE,
        )
        await self._orders.give(order)
        of = f"node {order.node_id or '*'}"
        event = f"node.{_BECAME[what]}"
        await record(self._audit, f"nodes.{what}", of, None, {"nodes": len(nodes)}, event=event)
        await self._store.register(us)
        try:
            wanted = {node.id for node in nodes}
            before = {node.id: node.beat for node in await self._store.list_nodes() if node.id in wanted}
            for _ in range(round(LONGEST / LOOK)):
                if not before:
                    return
                await self._rest(LOOK)
                beats = {node.id: node.beat for node in await self._store.list_nodes() if node.state is NodeState.ALIVE}
                before = {each: beat for each, beat in before.items() if 0 <= beats.get(each, -1) < beat + BEATS}
        finally:
            await self._store.leave(us.id, now)

    async def _forget_the_dead(self) -> None:
        known = await self._store.list_documents(DRAINED.word, limit=MOST_LISTED)
        living = {each.id for each in await self._store.list_nodes() if each.state is NodeState.ALIVE}
        for each in known:  # read before: a node that came since is not taken for dead
            if each.name not in living:
                await self._drained.discard(each.name)


def _one(node_id: str | None) -> NodeId | None:
    return None if node_id is None else NodeId(check_uuid(node_id, field="node"))


log = logging.getLogger(__name__)

DRAINED: DocumentKind[str] = DocumentKind("drained", str, str)
"""By the id of the node: since when, and by whom."""


class NodeStore(NodeTable, DocumentStore, Protocol):
    """The part of the store that is asked."""


async def nodes_of(store: NodeStore) -> Sequence[NodeRecord]:
    """Return all nodes and programs, with the mark of those that take no new runs."""
    nodes = await store.list_nodes()
    drained = {each.name for each in await store.list_documents(DRAINED.word, limit=MOST_LISTED)}
    return [replace(each, drained=True) if each.id in drained else each for each in nodes] if drained else nodes


async def mark_drained(store: DocumentStore, random: RandomBytes, node: NodeId, now: Moment) -> None:
    """Mark a node under its new id as taking no new runs, as its old id was."""
    text = f"{format_moment(now)} under another id"
    await store.put_document(Document(kind=DRAINED.word, name=node, text=text, version=new_version(random)), None)
    log.warning("it takes no new runs, by an earlier order: `tokimori node resume %s` ends that", node)
