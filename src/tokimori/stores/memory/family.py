"""Children of ended runs, in memory."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tokimori.model.dependents import Edge, On
from tokimori.model.ids import RunId
from tokimori.model.run import Run, Step
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.new_runs import (
    NO_STEPS,
    Child,
    Follower,
    arrive,
    child_skip,
    children_of,
    follower,
    in_order,
    steps_after,
)


def add_children(tables: Tables, parents: Sequence[Run], steps: Mapping[RunId, Sequence[Step]] = NO_STEPS) -> None:
    """Give each child of ended runs its run, and each of their steps."""
    new_runs = [child for parent in parents for child in children_of(parent, _followers(tables, parent))]
    for parent in parents if steps else ():
        named = [tables.jobs[step.job] for step in steps.get(parent.id, ()) if step.job in tables.jobs]
        jobs = {job.id: follower(Edge(job.id, job.id, On.SUCCESS, 0, job.id), job) for job in named}
        new_runs += steps_after(parent, steps.get(parent.id, ()), jobs)
    for child in in_order(new_runs):
        if (ready := _joined(tables, child)) is not None:
            _make_child(tables, ready)


def _followers(tables: Tables, parent: Run) -> Iterator[Follower]:
    if tables.job_of(parent.incarnation) is None:
        return  # children of another job that has got the id of a deleted one
    for edge in tables.edges.get(parent.job_id, ()):
        if edge.child in tables.jobs:
            job = tables.jobs[edge.child]
            yield follower(edge, job)


def _joined(tables: Tables, child: Child) -> Child | None:
    """Note that a parent of the child has ended. Return the child if no other parent is missing."""
    if not child.joins:
        return child
    arrivals, ready = arrive(child, tables.arrived)
    tables.arrived |= {(each.incarnation, each.root): each for each in arrivals}
    return ready


def _make_child(tables: Tables, child: Child) -> None:
    job = child.follower.job
    reason = child.reason(has_room=tables.has_room(job, 1))
    if child.step is not None and (child.step.id in tables.live or child.step.id in tables.history):
        return  # it names a run that there is
    if reason is None:
        tables.add(child.run())
        return
    skip = child_skip(child.parent, reason)
    known = tables.skips.get(job.incarnation, {}).get(skip.first)
    tables.keep_skips(job.incarnation, [skip if known is None else replace(skip, count=known.count + 1)])
