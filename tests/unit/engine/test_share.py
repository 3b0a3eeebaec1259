"""Which part of what is due a node decides."""

import pytest

from tokimori.engine.fire import Fired
from tokimori.engine.firing import MOST_SHARES, Turn, next_turn, share_of, share_of_many
from tokimori.model.ids import NodeId
from tokimori.ports.planning import ALL, Share

FULL = Fired(frozenset(), full=True, contended=False)
SOME = Fired(frozenset(), full=False, contended=False)
CONTENDED = Fired(frozenset(), full=False, contended=True)


@pytest.mark.parametrize(
    ("turn", "fired", "then"),
    [
        (Turn.ANYBODY, None, Turn.ANYBODY),
        (Turn.ANYBODY, SOME, Turn.ANYBODY),
        (Turn.ANYBODY, FULL, Turn.SHARE),
        (Turn.ANYBODY, CONTENDED, Turn.SHARE),
        (Turn.SHARE, None, Turn.REST),
        (Turn.SHARE, SOME, Turn.REST),
        (Turn.SHARE, CONTENDED, Turn.REST),
        (Turn.SHARE, FULL, Turn.SHARE),
        (Turn.REST, None, Turn.ANYBODY),
        (Turn.REST, SOME, Turn.ANYBODY),
        (Turn.REST, FULL, Turn.REST),
        (Turn.REST, CONTENDED, Turn.SHARE),
    ],
)
def test_a_share_is_taken_of_much_and_then_the_rest(turn: Turn, fired: Fired | None, then: Turn) -> None:
    """A node that meets much, or others at the same jobs, does its share, and then what nobody else does."""
    assert next_turn(turn, fired) is then


def test_shares_of_nodes_are_all_that_there_is() -> None:
    """Each node has a part of its own as long as there are parts, and every part belongs to somebody."""
    nodes = [NodeId(name) for name in "hgfedcba"]
    shares = [share_of(Turn.SHARE, node, [peer for peer in nodes if peer != node]) for node in nodes]
    assert sorted(shares) == [Share(part, MOST_SHARES) for part in range(MOST_SHARES)]


def test_whoever_is_alone_decides_all() -> None:
    """Without peers, and where it is nobody's turn, the part is the whole."""
    assert share_of(Turn.SHARE, NodeId("a"), []) == ALL
    assert share_of(Turn.REST, NodeId("a"), [NodeId("b")]) == ALL
    assert share_of_many(Turn.REST, NodeId("a"), [NodeId("b")]) == ALL


def test_of_many_that_are_anybodys_each_node_takes_its_share() -> None:
    """Where what anybody may decide turns out to be much, a node decides of it what will be its share."""
    assert share_of_many(Turn.ANYBODY, NodeId("a"), [NodeId("b")]) == share_of(Turn.SHARE, NodeId("a"), [NodeId("b")])
