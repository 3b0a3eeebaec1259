"""Operations and parts, as they are declared and bound."""

import inspect
import re
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from tests.unit.service.world import World
from tokimori.service.doors.audited import audited
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.operation import Member, Operation, members_in, through
from tokimori.service.service import PARTS, table


class Noted:
    """A way that notes what goes it."""

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self.bound: list[str] = []

    def __call__(self, member: Member[Any, Any, Any], name: str) -> Callable[..., Any]:
        self.bound.append(name)
        return lambda *args, **kwargs: (member, args, kwargs)


def test_an_operation_is_bound_once_for_a_part() -> None:
    """Each lookup after the first finds it in the part itself."""
    via = Noted()
    jobs: Any = through(Jobs, via)
    assert jobs.pause is jobs.pause
    assert jobs.pause("a", now=True) == (Jobs.pause, ("a",), {"now": True})
    assert via.bound == ["jobs.pause"]


def test_what_is_composed_runs_where_it_is_called() -> None:
    """Over a way of operations alone; another thread carries out all of it."""
    assert inspect.ismethod(through(Jobs, Noted()).delete_all)
    whole: Any = through(Jobs, Noted(whole=True))
    assert whole.delete_all("all") == (Jobs.delete_all, ("all",), {})


async def test_a_part_is_not_copied(world: World) -> None:
    """A copy would keep what was bound for another one."""
    with pytest.raises(TypeError, match="not copied"):
        copy(world.service.jobs)
    assert audited(world.service).jobs is not world.service.jobs


def test_names_are_those_of_nouns() -> None:
    """Each operation is called by its part and its method, and no two parts have a noun in common."""
    assert len({kind.noun for kind in PARTS}) == len(PARTS)
    for name, each in table().items():
        noun, _, verb = name.partition(".")
        assert (each.name, verb) == (verb, each.method.__name__)
        assert any(kind.noun == noun and members_in(kind)[verb] is each for kind in PARTS)


@pytest.mark.parametrize(
    "operation",
    [each for each in table().values() if each.twin is not None and each.audit is not None],
    ids=lambda operation: operation.method.__qualname__,
)
def test_what_a_scope_changes_of_a_recorded_operation_reads_no_store(operation: Operation[Any, Any, Any]) -> None:
    """It is called with a part that records, and holds operations alone."""
    assert operation.twin is not None
    assert re.findall(r"self\._\w+", inspect.getsource(operation.twin)) == []


@pytest.mark.parametrize(
    "operation",
    [each for each in table().values() if each.twin is not None],
    ids=lambda operation: operation.method.__qualname__,
)
def test_what_a_scope_changes_takes_the_same_arguments(operation: Operation[Any, Any, Any]) -> None:
    """Behind the view of the caller, with the same defaults."""
    assert operation.twin is not None
    own, twin = inspect.signature(operation.method), inspect.signature(operation.twin)
    assert [*own.parameters.values()][1:] == [*twin.parameters.values()][2:]
    assert own.return_annotation == twin.return_annotation
