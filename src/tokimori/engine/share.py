"""Share of what is due that a node decides: nodes that decide the same jobs at once work in vain. Pure."""

from collections.abc import Iterable
from enum import Enum

from tokimori.engine.fire import Fired
from tokimori.model.ids import NodeId
from tokimori.ports.planning import ALL, Share

MOST_SHARES = 8
"""Into so many parts the due jobs fall at most: the store walks over those of the others."""


class Turn(Enum):
    """A few due jobs are anybody's. Of many a node takes its share first, and then what the others have left.

    That there are many is seen when anybody's are read: then no node decides more of those than its share, either.
    """

    ANYBODY = "anybody"
    SHARE = "share"
    REST = "rest"


def next_turn(turn: Turn, fired: Fired | None) -> Turn:
    """Return the next turn, after this one fired so much (None: there was nothing)."""
    if turn is Turn.SHARE:
        return Turn.SHARE if fired is not None and fired.full else Turn.REST
    if fired is None or not (fired.full or fired.contended):
        return Turn.ANYBODY
    return Turn.REST if turn is Turn.REST and not fired.contended else Turn.SHARE


def share_of_many(turn: Turn, node: NodeId, peers: Iterable[NodeId]) -> Share:
    """Return the part of what is read in this turn that is this node's, where that turns out to be many."""
    return share_of(Turn.SHARE, node, peers) if turn is Turn.ANYBODY else ALL


def share_of(turn: Turn, node: NodeId, peers: Iterable[NodeId]) -> Share:
    """Return the part of this node. Where nodes do not see the same peers some work is done in vain, and nothing is
    left out: the rest is everybody's.
    """
    nodes = sorted([node, *peers])
    if turn is not Turn.SHARE or len(nodes) == 1:
        return ALL
    parts = min(len(nodes), MOST_SHARES)
    return Share(nodes.index(node) % parts, parts)
