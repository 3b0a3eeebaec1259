"""What follows the end of a run, in memory: the runs of the jobs that depend on its job."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tokimori.model.dependents import Edge, follows, root_of
from tokimori.model.job import Job
from tokimori.model.run import Run, SkipReason
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.births import NOT_RUN, child_run, child_skip
from tokimori.stores.rules.lanes import lane_for


def bear_children(tables: Tables, parents: Iterable[Run]) -> None:
    """Give each child of runs that have ended its run; `place` is in the order in which the children were added.

    Those of one child in the order of roots and parents: where not all of them have room every store chooses the same.
    """
    births = [birth for parent in parents for birth in _births(tables, parent)]
    for parent, child, edge, place in sorted(
        births, key=lambda birth: (birth[1].incarnation, root_of(birth[0]), birth[0].id)
    ):
        if _joined(tables, parent, child, edge):
            _bear(tables, parent, child, edge, place)


def _births(tables: Tables, parent: Run) -> Iterator[tuple[Run, Job, Edge, int]]:
    if tables.job_of(parent.incarnation) is None:
        return  # children of another job that has got the id of a deleted one
    edges = [edge for edge in tables.edges.get(parent.job_id, ()) if follows(edge.on, parent.state)]
    children = [(tables.jobs[edge.child], edge) for edge in edges if edge.child in tables.jobs]
    children.sort(key=lambda pair: (pair[0].created, pair[0].id, pair[1].on))
    for place, (child, edge) in enumerate(children):
        yield parent, child, edge, place


def _joined(tables: Tables, parent: Run, child: Job, edge: Edge) -> bool:
    """Whether the child need not wait for other parents."""
    if not edge.joins:
        return True
    key = child.incarnation, root_of(parent)
    arrived = tables.arrived.setdefault(key, set())
    arrived.add(parent.job_id)
    if len(arrived) < edge.joins:
        return False
    del tables.arrived[key]
    return True


def _bear(tables: Tables, parent: Run, child: Job, edge: Edge, place: int) -> None:
    reason = NOT_RUN.get(child.state)
    if reason is None and not tables.has_room(child, 1):
        reason = SkipReason.FULL
    if reason is None:
        tables.add(child_run(parent, edge, child, place, lane_for(child)))
        return
    skip = child_skip(parent, reason)
    known = tables.skips.get(child.incarnation, {}).get(skip.first)
    tables.keep_skips(child.incarnation, [skip if known is None else replace(skip, count=known.count + 1)])
