"""The list of nodes."""

from typing import Final

from tokimori.web.screen import Screen, Shown
from tokimori.web.visit import Visit


async def show(visit: Visit) -> Shown:
    """Return the list of nodes that take part."""
    nodes = [node for node in await visit.service.nodes.list() if node.runs_jobs]
    return {"nodes": [(node, visit.time(node.started)) for node in nodes]}


SCREENS: Final = (Screen("/nodes", "nodes", "nodes.html", show, leads=True),)
