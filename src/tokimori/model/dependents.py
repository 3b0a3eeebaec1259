"""Dependents: edges between jobs, and joins of several parents. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from msgspec import Struct

from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId
from tokimori.model.run import Run, child_origin
from tokimori.model.transitions import RunState

CHILDLESS = "a job after which none runs"
"""Jobs that may be deleted, in the words of a refusal of others."""
MOST_CHILDREN = 1_000
"""Jobs that may run directly after one: their runs are made in the transaction in which its run ends."""


class On(StrEnum):
    """After which end of the parent the child runs."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"
    """After any end, a cancellation included."""


class Join(StrEnum):
    """Number of parents that a child waits for."""

    ANY = "any"
    """Each end of a parent makes one run of the child."""
    ALL = "all"
    """One run once every parent has ended as asked, for one and the same root."""


class Parent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job after which this one runs."""

    job: str
    on: On = On.SUCCESS


class Edge(NamedTuple):
    """`child` runs after `parent`. `declared_by` is the job that says so: the child, or a parent with `on_failure_job`.

    `joins` is how many parents the child has, if it waits for all of them; 0 otherwise.
    """

    parent: JobId
    child: JobId
    on: On
    joins: int
    declared_by: JobId


_FOLLOWS: Mapping[On, frozenset[RunState]] = {
    On.SUCCESS: frozenset({RunState.SUCCEEDED}),
    On.FAILURE: frozenset({RunState.FAILED}),
    On.ALWAYS: frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}),
}


def follows(on: On, state: RunState) -> bool:
    """Return whether a parent that ended in this state starts the child."""
    return state in _FOLLOWS[on]


def root_of(run: Run) -> str:
    """Return the run with which the chain began, by which the ends of several parents are joined.

    Occurrences of one nominal time have one root; every other run that has no parent is one of its own.
    """
    if run.root is not None:
        return run.root
    return run.origin if run.origin.startswith("s:") else run.id


def origin_after(parent: Run, edge: Edge) -> str:
    """Return the origin of the child's run: one for each end of the parent, or one for each root."""
    return child_origin(root_of(parent) if edge.joins else parent.id)


def all_after(edges: Iterable[Edge], job_id: JobId) -> set[JobId]:
    """Return all jobs that run after this one, or after one of them."""
    below, found, line = _children(edges), set[JobId](), [job_id]
    for parent in line:
        more = below.get(parent, set()) - found
        found |= more
        line += more
    return found


def most_children(edges: Iterable[Edge], job_id: JobId) -> int:
    """Return the most jobs that run directly after one: after this job, or after one that runs after it."""
    known = list(edges)
    below = _children(known)
    return max(len(below.get(parent, ())) for parent in (job_id, *all_after(known, job_id)))


def check_children(before: Iterable[Edge], after: Iterable[Edge]) -> None:
    """Check that a job has at most `MOST_CHILDREN`, or not more than before. Raises `InvalidInput`."""
    known = _children(before)
    for parent, children in _children(after).items():
        if len(children) > max(MOST_CHILDREN, len(known.get(parent, ()))):
            raise InvalidInput(
                f"parents: {len(children)} jobs would run after {parent}",
                field="parents",
                value=parent,
                allowed=f"at most {MOST_CHILDREN} jobs after one; a job between them has as many of its own",
            )


def only_after(edges: Sequence[Edge], job_id: JobId) -> list[JobId]:
    """Return this job and the jobs that run only after it, or after such jobs, by their own declaration.

    Each comes after all of its parents.
    """
    own = [edge for edge in edges if edge.declared_by == edge.child]
    below, left, line = _children(own), defaultdict[JobId, set[JobId]](set), [job_id]
    for edge in own:
        left[edge.child].add(edge.parent)
    for parent in line:  # which grows meanwhile
        for child in sorted(below.get(parent, ())):
            left[child].discard(parent)
            if not left[child]:
                line.append(child)
    return line


def _children(edges: Iterable[Edge]) -> Mapping[JobId, set[JobId]]:
    found = defaultdict[JobId, set[JobId]](set)
    for edge in edges:
        found[edge.parent].add(edge.child)
    return found


def check_acyclic(edges: Iterable[Edge]) -> None:
    """Raise `InvalidInput` naming jobs that would run after themselves."""
    graph: TopologicalSorter[JobId] = TopologicalSorter()
    for edge in edges:
        graph.add(edge.child, edge.parent)
    try:
        graph.prepare()
    except CycleError as fault:
        path = " → ".join(fault.args[1])
        raise InvalidInput(
            f"parents: {path} is a cycle", field="parents", value=path, allowed="jobs that do not come after this one"
        ) from None
