"""Children of ended runs, in memory."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tokimori.model.run import Run
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.births import Child, Follower, arrive, child_skip, children_of, follower, in_order


def bear_children(tables: Tables, parents: Iterable[Run]) -> None:
    """Give each child of ended runs its run."""
    births = [child for parent in parents for child in children_of(parent, _followers(tables, parent))]
    for child in in_order(births):
        if (ready := _joined(tables, child)) is not None:
            _bear(tables, ready)


def _followers(tables: Tables, parent: Run) -> Iterator[Follower]:
    if tables.job_of(parent.incarnation) is None:
        return  # children of another job that has got the id of a deleted one
    for edge in tables.edges.get(parent.job_id, ()):
        if edge.child in tables.jobs:
            job = tables.jobs[edge.child]
            yield follower(edge, job)


def _joined(tables: Tables, child: Child) -> Child | None:
    """Return the child if it waits for no other parents."""
    if not child.follower.edge.joins:
        return child
    arrivals, ready = arrive(child, tables.arrived)
    tables.arrived |= {(each.incarnation, each.root): each for each in arrivals}
    return ready


def _bear(tables: Tables, child: Child) -> None:
    job = child.follower.job
    reason = child.reason(has_room=tables.has_room(job, 1))
    if reason is None:
        tables.add(child.run())
        return
    skip = child_skip(child.parent, reason)
    known = tables.skips.get(job.incarnation, {}).get(skip.first)
    tables.keep_skips(job.incarnation, [skip if known is None else replace(skip, count=known.count + 1)])
