"""Nodes that were told to take no new runs. A document says it of each, as no row of a store does."""

import logging
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.model.document import Document, new_version
from tokimori.model.ids import NodeId, RandomBytes
from tokimori.ports.documents import Documents
from tokimori.ports.nodes import NodeRecord, Nodes
from tokimori.service.asking import MOST_LISTED
from tokimori.service.documents import DocumentKind

log = logging.getLogger(__name__)

DRAINED: DocumentKind[str] = DocumentKind("drained", str, str)
"""By the id of the node: since when, and by whom."""


class NodeStore(Nodes, Documents, Protocol):
    """The part of the store that is asked."""


async def nodes_of(store: NodeStore) -> Sequence[NodeRecord]:
    """Return all nodes and programs, and which of them were told to take no new runs."""
    nodes = await store.list_nodes()
    drained = {each.name for each in await store.list_documents(DRAINED.word, limit=MOST_LISTED)}
    return [replace(each, drained=True) if each.id in drained else each for each in nodes] if drained else nodes


async def tell_drained(store: Documents, random: RandomBytes, node: NodeId, now: Moment) -> None:
    """Say of a node that goes on under this new id that it takes no new runs, as it was told before."""
    text = f"{format_moment(now)} under another id"
    await store.put_document(Document(kind=DRAINED.word, name=node, text=text, version=new_version(random)), None)
    log.warning("it still takes no new runs, as it was ordered before: `tokimori node resume %s` lets it", node)
