"""Which jobs run after which, as a picture."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import NotFound, Refused
from tokimori.model.dependents import Edge, On
from tokimori.model.ids import JobId
from tokimori.service.jobs.graph import MOST_EDGES, around, direct, dot, tree


def edge(parent: str, child: str, on: On = On.SUCCESS, joins: int = 0) -> Edge:
    """One declared by the child."""
    return Edge(JobId(parent), JobId(child), on, joins, JobId(child))


DIAMOND = [
    edge("a", "b"),
    edge("a", "c", On.ALWAYS),
    edge("b", "d", joins=2),
    edge("c", "d", joins=2),
    edge("d", "e", On.FAILURE),
    edge("x", "y"),
]


def test_the_tree_shows_every_edge_once() -> None:
    """Children are indented below their parents; a job with several parents keeps its own children at the first."""
    assert tree(DIAMOND) == [
        "a",
        "├─ b on success",
        "│  └─ d on success (all of 2)",
        "│     └─ e on failure",
        "└─ c on always",
        "   └─ d on success (all of 2) …",
        "x",
        "└─ y on success",
    ]
    assert tree([]) == []


def test_a_long_chain_and_many_diamonds_are_drawn() -> None:
    """Neither depth nor the number of ways through the graph matters: a line for each edge, and one for the root."""
    chain = [edge(f"{n:05}", f"{n + 1:05}") for n in range(5000)]
    assert len(tree(chain)) == 5001
    diamonds = [
        made
        for n in range(30)
        for side in ("l", "r")
        for made in (edge(f"{n:02}", f"{n:02}{side}"), edge(f"{n:02}{side}", f"{n + 1:02}"))
    ]
    assert len(tree(diamonds)) == len(diamonds) + 1


def test_around_is_what_is_above_and_below() -> None:
    """Of the whole graph only the ways to and from the job are left; its sides are not."""
    assert [(each.parent, each.child) for each in around(DIAMOND, JobId("b"))] == [("a", "b"), ("b", "d"), ("d", "e")]
    assert around(DIAMOND, JobId("nobody")) == []
    assert direct(DIAMOND, JobId("d")) == DIAMOND[2:5]


def test_dot_can_be_read_by_graphviz() -> None:
    """Every job is a node and every edge has a label; ids are quoted."""
    assert dot([edge("a", 'b"b')]) == (
        'digraph jobs {\n  "a";\n  "b\\"b";\n  "a" -> "b\\"b" [label="on success"];\n}\n'
    )
    assert dot([], JobId("a")) == 'digraph jobs {\n  "a";\n}\n'


async def test_a_failure_job_is_in_the_graph(world: World) -> None:
    """A job that runs after a failure is below the one that says so; an unknown job has no graph."""
    await world.add({"noop": True}, "mop")
    await world.add({"noop": True, "on_failure_job": "mop"}, "a")
    await world.add({"noop": True, "parents": [{"job": "a", "on": "always"}]}, "b")
    await world.add({"noop": True}, "alone")
    assert tree(await world.service.jobs.graph()) == ["a", "├─ b on always", "└─ mop on failure"]
    assert [each.parent for each in await world.service.jobs.graph("b")] == ["a"]
    assert await world.service.jobs.graph("alone") == []
    with pytest.raises(NotFound):
        await world.service.jobs.graph("nobody")


def test_of_many_edges_the_nearest_are_shown() -> None:
    """Those above and those below in turn, however many there are; each once, and in order."""
    chain = [edge(f"j{n}", f"j{n + 1}") for n in range(9)]
    assert around(chain, JobId("j4"), 5) == chain[1:6]
    assert around(chain, JobId("j1"), 4) == chain[:4]
    wide = [*chain, *(edge("j9", f"k{n:05}") for n in range(20_000))]
    assert len(around(wide, JobId("j9"))) == MOST_EDGES
    assert around(DIAMOND, JobId("b"), 2) == [DIAMOND[0], DIAMOND[2]]


async def test_too_many_edges_are_not_shown_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says how to see some of them."""
    monkeypatch.setattr("tokimori.service.jobs.graph.MOST_EDGES", 1)
    await world.add({"noop": True}, "a")
    await world.add({"noop": True, "parents": [{"job": "a"}]}, "b")
    assert len(await world.service.jobs.graph()) == 1
    await world.add({"noop": True, "parents": [{"job": "b"}]}, "c")
    with pytest.raises(Refused, match="tokimori job graph ID"):
        await world.service.jobs.graph()
