"""Births: the first state of a run, and the run or the skip that a dependent job gets."""

from collections.abc import Iterator, Sequence

from tokimori.clock import Moment
from tokimori.model.decide import Plan
from tokimori.model.dependents import Edge, origin_after, root_of
from tokimori.model.ids import Lane, RunId, births_of, child_id
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import rank_of
from tokimori.model.run import Run, Skip, SkipReason
from tokimori.model.transitions import RunState


def born(due: Moment, now: Moment) -> RunState:
    """The first state of a planned run."""
    return RunState.READY if due <= now else RunState.WAITING


def planned_runs(plan: Plan, ids: Sequence[RunId], now: Moment) -> Iterator[Run]:
    """The runs that a plan makes, with these ids in their order."""
    for planned, run_id in zip(plan.runs, ids, strict=True):
        yield Run(
            id=run_id,
            job_id=plan.job_id,
            incarnation=plan.incarnation,
            origin=planned.origin,
            nominal=planned.nominal,
            due=planned.due,
            state=born(planned.due, now),
            priority=planned.priority,
            rank=planned.rank,
            lane=planned.lane,
            created=now,
            details=plan.details,
            concurrency_key=plan.concurrency_key,
        )


NOT_RUN = {JobState.PAUSED: SkipReason.PAUSED, JobState.PARKED: SkipReason.PARKED}
"""Why a child in these states gets a skip instead of a run."""


def child_run(parent: Run, edge: Edge, child: Job, place: int, lane: Lane | None) -> Run:
    """The run of a dependent job after the end of its parent; `place` keeps children in their order, 0 first.
    `lane` is that of the child.

    It inherits the nominal time, and the parent's result as its payload (where there is none, the parent's own one).
    """
    ended = parent.due if parent.ended is None else parent.ended
    due = Moment(ended + place)
    priority = child.definition.priority
    return Run(
        id=child_id(due, births_of(parent.id), place),
        job_id=child.id,
        incarnation=child.incarnation,
        origin=origin_after(parent, edge),
        nominal=parent.nominal,
        due=due,
        state=RunState.READY,
        priority=priority,
        rank=rank_of(due, priority),
        lane=lane,
        created=ended,
        payload=parent.payload if parent.result is None else parent.result,
        parent_id=parent.id,
        root=root_of(parent),
        concurrency_key=child.definition.concurrency_key,
    )


def child_skip(parent: Run, reason: SkipReason) -> Skip:
    """What a stopped child gets instead: at the moment of the parent's end.

    At the nominal time a range of skips of the child's own schedule may begin, and take its place.
    """
    moment = parent.due if parent.ended is None else parent.ended
    return Skip(first=moment, last=moment, count=1, reason=reason)
