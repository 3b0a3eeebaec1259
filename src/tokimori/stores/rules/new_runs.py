"""New runs: the first state of a run, the run or the skip that a dependent job gets, and plans that are applied."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.decide import Plan
from tokimori.model.dependents import Edge, follows, origin_after, root_of
from tokimori.model.ids import Incarnation, JobId, Lane, RunId, child_base, child_id
from tokimori.model.job import Job, JobState, most_active
from tokimori.model.lanes import head_start
from tokimori.model.run import NO_DETAILS, Details, Run, Skip, SkipReason, Step, child_origin
from tokimori.model.target import Unreadable
from tokimori.model.transitions import RunState
from tokimori.ports.copying import ALL_ARRIVED, Arrival
from tokimori.ports.working import Change
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


NO_STEPS: Mapping[Any, Any] = MappingProxyType({})
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
    """A job that runs after the end of a run; `place` is its place among these jobs, `joined` are all it waited for.

    `step` is set if the run itself says so, and not an edge.
    """

    parent: Run
    follower: Follower
    place: int
    joined: tuple[RunId, ...] = ()
    step: Step | None = None

    @property
    def joins(self) -> int:
        """Return for how many parents it waits; 0: for this one alone."""
        return self.follower.edge.joins if self.step is None else self.step.joins

    @property
    def key(self) -> tuple[Incarnation, str]:
        """Return the key under which the store keeps the ended parents, if it waits for all of them."""
        return self.follower.job.incarnation, root_of(self.parent) if self.step is None else self.step.id

    @property
    def keys(self) -> tuple[tuple[Incarnation, str], tuple[Incarnation, str]]:
        """Return that key, and the one under which the ids of their runs are kept: older programs count jobs alone."""
        incarnation, root = self.key
        return self.key, (incarnation, f"{RUNS}{root}")

    def run(self) -> Run:
        """Return its run."""
        run = child_run(self.parent, self.follower, self.place, self.joined)
        if self.step is None:
            return run
        step, awaited = self.step, self.parent.state is RunState.WAITING
        details = Details(parents=self.joined, then=self.step.then, awaited=awaited)
        payload = self.parent.result if step.payload is None and not step.joins else step.payload
        return replace(run, id=step.id, origin=child_origin(step.id), payload=payload, details=details)

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
    arrived = child.parent.job_id if child.step is None else child.parent.id
    jobs = jobs if jobs == ALL_ARRIVED else tuple(sorted({*jobs, arrived}))
    runs = tuple(sorted({*runs, child.parent.id}))
    complete = jobs != ALL_ARRIVED and len(jobs) >= child.joins
    kept = (ALL_ARRIVED, ALL_ARRIVED) if complete or jobs == ALL_ARRIVED else (jobs, runs)
    rows = [
        Arrival(incarnation=incarnation, root=root, parents=parents, latest=Moment(latest))
        for (incarnation, root), parents in zip(child.keys, kept, strict=True)
    ]
    return rows, child._replace(joined=tuple(map(RunId, runs))) if complete else None


def steps_after(run: Run, steps: Iterable[Step], jobs: Mapping[JobId, Follower]) -> list[Child]:
    """Return the steps that follow the end of a run, or that it spawns, of jobs that there still are."""
    ends = {RunState.SUCCEEDED: False, RunState.FAILED: True, RunState.WAITING: False}
    after = [each for each in steps if each.on_failure is ends.get(run.state) and each.job in jobs]
    return [Child(run, jobs[each.job], place, step=each) for place, each in enumerate(after)]


def steps_in(changes: Iterable[Change]) -> dict[RunId, tuple[Step, ...]]:
    """Return the steps of these changes by their runs."""
    return {each.run_id: each.then for each in changes if each.then and not each.childless}


def step_maps(change: Change) -> list[dict[str, Any]]:
    """Return the steps of a change for statements; `more` is what their details have behind `parents`.

    `spawned` is set for those of a run that goes on: the moment of their birth.
    """
    spawned = {"spawned": change.ended} if change.spawns else {}
    more = ["" if not each.then else f',"then":{msgspec.json.encode(each.then).decode()}' for each in change.then]
    return [
        {
            "parent": change.run_id,
            "id": each.id,
            "job": each.job,
            "on_failure": each.on_failure,
            "joins": each.joins,
            "more": f'{rest},"awaited":true' if spawned else rest,
            **spawned,
            **({} if each.payload is None else {"payload": each.payload}),
        }
        for each, rest in zip(change.then, more, strict=True)
    ]


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
        id=child_id(due, child_base(parent.id), place),
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


def is_readable(job: Job) -> bool:
    """Return whether this program can read the job's definition; a job that it can't read does not fire here."""
    return not isinstance(job.definition.target, Unreadable)


class Cursor(NamedTuple):
    """Facts of a job that guard a plan."""

    incarnation: Incarnation
    version: int
    fired_through: Moment
    state: JobState


def may_apply(plan: Plan, cursor: Cursor) -> bool:
    """Return whether the plan was made from the job as it is."""
    return cursor == Cursor(plan.incarnation, plan.version, plan.fired_from, JobState.ENABLED)


def was_applied(plan: Plan, cursor: Cursor | None, *, first_run_exists: bool) -> bool:
    """Return whether a refused plan took effect before: its caller's reply was lost."""
    if plan.runs or cursor is None:
        return first_run_exists
    moved = plan.fired_through > plan.fired_from
    return moved and cursor[:3] == (plan.incarnation, plan.version, plan.fired_through)
