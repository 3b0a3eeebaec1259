"""Which end of a parent has a child run, where chains begin, and that there are no circles."""

from graphlib import CycleError, TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_run
from tokimori.errors import InvalidInput
from tokimori.model.dependents import Edge, On, all_after, check_acyclic, follows, only_after, origin_after, root_of
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import scheduled_origin
from tokimori.model.transitions import ENDS, RunState


def edge(parent: str, child: str, joins: int = 0) -> Edge:
    """An edge that the child declares."""
    return Edge(JobId(parent), JobId(child), On.SUCCESS, joins, JobId(child))


@pytest.mark.parametrize("on", On)
def test_every_end_is_answered(on: On) -> None:
    """Success and failure are told apart, `always` is any end of an attempt, and nothing follows a dropped run."""
    wanted = {
        On.SUCCESS: {RunState.SUCCEEDED},
        On.FAILURE: {RunState.FAILED},
        On.ALWAYS: ENDS - {RunState.SKIPPED},
    }
    assert {state for state in RunState if follows(on, state)} == wanted[on]


def test_occurrences_of_one_moment_have_one_root() -> None:
    """Two jobs that are scheduled for one moment meet again in a child of both; requests are roots of their own."""
    scheduled = [a_run(id=RunId(name), origin=scheduled_origin(NEW_YEAR)) for name in "ab"]
    assert len({root_of(run) for run in scheduled}) == 1
    assert root_of(a_run(id=RunId("r"), origin="m:r")) == "r"
    assert root_of(a_run(root="begin")) == "begin"


def test_a_child_of_one_is_named_by_its_parent_and_a_child_of_all_by_the_root() -> None:
    """The origin of a child's run is what must be there at most once."""
    parent = a_run(id=RunId("r"), root="begin")
    assert origin_after(parent, edge("a", "b")) == "c:r"
    assert origin_after(parent, edge("a", "b", joins=2)) == "c:begin"


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_a_circle_is_found_where_there_is_one(pairs: list[tuple[int, int]]) -> None:
    """Edges are refused if and only if there is no order in which every parent comes before its children."""
    before = {child: {parent for parent, other in pairs if other == child} for child in {child for _, child in pairs}}
    try:
        list(TopologicalSorter(before).static_order())
    except CycleError:
        with pytest.raises(InvalidInput, match="cycle"):
            check_acyclic(edge(str(parent), str(child)) for parent, child in pairs)
    else:
        check_acyclic(edge(str(parent), str(child)) for parent, child in pairs)


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1])))
def test_with_a_job_goes_what_runs_after_nothing_else(pairs: set[tuple[int, int]]) -> None:
    """A job goes if and only if all of its parents go, and comes behind them; what others say of it is nothing."""
    edges = [edge(str(parent), str(child)) for parent, child in sorted(pairs)]
    failure = edge("1", "99")._replace(declared_by=JobId("1"))
    going = only_after([*edges, failure], JobId("0"))
    assert (going[0], len(going)) == ("0", len(set(going)))
    for n in range(1, 10):
        parents = {each.parent for each in edges if each.child == str(n)}
        assert (str(n) in going) == (parents != set() and parents <= set(going))
        assert str(n) not in going or all(going.index(parent) < going.index(JobId(str(n))) for parent in parents)
    assert set(going) - {"0"} <= all_after(edges, JobId("0"))
