"""Births: the first state of a run, and the run or the skip that a dependent job gets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.decide import Plan
from tokimori.model.dependents import Edge, follows, origin_after, root_of
from tokimori.model.ids import Incarnation, Lane, RunId, births_of, child_id
from tokimori.model.job import Job, JobState, most_active
from tokimori.model.lanes import head_start
from tokimori.model.run import NO_DETAILS, Details, Run, Skip, SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.copying import ALL_ARRIVED, Arrival
from tokimori.stores.rules.lines import lane_for


def born(due: Moment, now: Moment) -> RunState:
    """Return the first state of a planned run."""
    return RunState.READY if due <= now else RunState.WAITING


def planned_runs(plan: Plan, ids: Sequence[RunId], now: Moment) -> Iterator[Run]:
    """Yield the runs that a plan makes, with these ids in their order."""
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


RUNS = "r:"
"""Beginning of the key of runs that have arrived, before the root: no root begins so."""


class Follower(NamedTuple):
    """A job that runs after another, by its own declaration; known even if its definition can't be read."""

    edge: Edge
    job: Job
    lane: Lane | None
    most_active: int | None
    key: str | None
    priority: int
    head_start: int


def follower(edge: Edge, job: Job) -> Follower:
    """Return the follower for a job with a readable definition."""
    terms = job.definition
    of_priority = terms.priority, head_start(terms.priority)
    return Follower(edge, job, lane_for(job), most_active(terms), terms.concurrency_key, *of_priority)


class Child(NamedTuple):
    """A job that runs after the end of a run; `place` is its place among these jobs, `joined` are all it waited for."""

    parent: Run
    follower: Follower
    place: int
    joined: tuple[RunId, ...] = ()

    @property
    def key(self) -> tuple[Incarnation, str]:
        """Return the key under which the store keeps the ended parents, if it waits for all of them."""
        return self.follower.job.incarnation, root_of(self.parent)

    @property
    def keys(self) -> tuple[tuple[Incarnation, str], tuple[Incarnation, str]]:
        """Return that key, and the one under which the ids of their runs are kept: older programs count jobs alone."""
        incarnation, root = self.key
        return self.key, (incarnation, f"{RUNS}{root}")

    def run(self) -> Run:
        """Return its run."""
        return child_run(self.parent, self.follower, self.place, self.joined)

    def reason(self, *, has_room: bool) -> SkipReason | None:
        """Return why it gets no run; None if it gets one."""
        return NOT_RUN.get(self.follower.job.state, None if has_room else SkipReason.FULL)


def children_of(run: Run, followers: Iterable[Follower]) -> list[Child]:
    """Return the children of a run that has ended, in the order in which they were added."""
    after = [each for each in followers if follows(each.edge.on, run.state)]
    after.sort(key=lambda each: (each.job.created, each.job.id, each.edge.on, each.edge.declared_by))
    return [Child(run, each, place) for place, each in enumerate(after)]


def arrive(child: Child, known: Mapping[tuple[Incarnation, str], Arrival]) -> tuple[list[Arrival], Child | None]:
    """Return the arrivals to keep after this parent has ended, and the child if they complete the join."""
    before = [known.get(key) for key in child.keys]
    latest = max(child.parent.ended or child.parent.due, *(each.latest for each in before if each is not None), 0)
    jobs, runs = (() if each is None else each.parents for each in before)
    jobs = jobs if jobs == ALL_ARRIVED else tuple(sorted({*jobs, child.parent.job_id}))
    runs = tuple(sorted({*runs, child.parent.id}))
    complete = jobs != ALL_ARRIVED and len(jobs) >= child.follower.edge.joins
    kept = (ALL_ARRIVED, ALL_ARRIVED) if complete or jobs == ALL_ARRIVED else (jobs, runs)
    rows = [
        Arrival(incarnation=incarnation, root=root, parents=parents, latest=Moment(latest))
        for (incarnation, root), parents in zip(child.keys, kept, strict=True)
    ]
    return rows, child._replace(joined=tuple(map(RunId, runs))) if complete else None


def in_order(children: Iterable[Child]) -> list[Child]:
    """Return children by roots, parents and places, so that every store chooses the same ones if room is short."""
    return sorted(children, key=lambda child: (child.key, child.parent.id, child.place))


def child_run(parent: Run, child: Follower, place: int, joined: tuple[RunId, ...] = ()) -> Run:
    """Return the run of a dependent job after the end of its parent; `place` keeps children in their order, 0 first.

    It inherits the nominal time, and the parent's result as its payload (without a result, the parent's own payload).
    """
    ended = parent.due if parent.ended is None else parent.ended
    due = Moment(ended + place)
    return Run(
        id=child_id(due, births_of(parent.id), place),
        job_id=child.job.id,
        incarnation=child.job.incarnation,
        origin=origin_after(parent, child.edge),
        nominal=parent.nominal,
        due=due,
        state=RunState.READY,
        priority=child.priority,
        rank=due - child.head_start,
        lane=child.lane,
        created=ended,
        payload=parent.payload if parent.result is None else parent.result,
        parent_id=parent.id,
        root=root_of(parent),
        concurrency_key=child.key,
        details=Details(parents=joined) if joined else NO_DETAILS,
    )


def child_skip(parent: Run, reason: SkipReason) -> Skip:
    """Return the skip of a stopped child, at the moment of the parent's end.

    A range of skips of the child's own schedule may begin at the nominal time, and would replace it.
    """
    moment = parent.due if parent.ended is None else parent.ended
    return Skip(first=moment, last=moment, count=1, reason=reason)
