"""The few rules that live in the stores, because only they see all at once. Pure, and the same for every store."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import takewhile
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import FamilyChanged, NotFound, Refused
from tokimori.model.decide import Plan
from tokimori.model.dependents import Edge, origin_after, root_of
from tokimori.model.ids import Incarnation, JobId, Lane, NodeId, RunId, Token, uuid7
from tokimori.model.job import Job, JobState, Unreadable, edges_of, lane_of, rank_of
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run, Skip, SkipReason
from tokimori.model.transitions import ENDS, Event, RunState, move
from tokimori.ports.semaphores import Permit, permit_of
from tokimori.ports.store import Change, NodeState, Verdict

JOB_DELETED = "the job was deleted"
REPLACED = "replaced by a newer run"
PARKED_BY = "tokimori"
"""Who parks a job whose run has used up its retries."""
MOST_EXAMINED = 10_000
"""How many ready runs one claim may send to the line of a full job before it gives up until it is asked again."""

CLAIMABLE = frozenset({JobState.ENABLED, JobState.FINISHED})
"""States of a job whose runs have a lane."""


def lane_for(job: Job) -> Lane | None:
    """Where the job's runs wait: nowhere while it is paused or parked."""
    return lane_of(job.definition) if job.state in CLAIMABLE else None


def no_job(job_id: str) -> NotFound:
    """The error for an id that no job has."""
    return NotFound(f"there is no job {job_id!r}", field="id", value=job_id)


def lane_of_forced(old: Job, new: Job) -> Lane | None:
    """Where the forced runs of a job wait that was stopped and still is: those are the ones that have a lane there."""
    return lane_of(new.definition) if not {old.state, new.state} & CLAIMABLE else None


def stopped(job_id: JobId, state: str) -> Refused:
    """The error for a request that a paused or parked job does not take."""
    return Refused(
        f"the job {job_id!r} is {state}", field="id", value=job_id, allowed="a job that is not stopped, or force"
    )


def is_readable(job: Job) -> bool:
    """Whether this program knows what the job's definition says; where not, the job is one for newer nodes alone."""
    return not isinstance(job.definition.target, Unreadable)


def fits(used: int, limit: int, weight: int = 1) -> bool:
    """Whether one more run may run, or so many more units be held; limit 0 is unlimited."""
    return not limit or used + weight <= limit


def room(running: int, limit: int, waiters: int) -> int:
    """How many of the waiters may be woken."""
    return waiters if not limit else max(0, min(waiters, limit - running))


class Place(NamedTuple):
    """Where a run or a program stands in the line of a semaphore, smaller first, and the units that it wants."""

    rank: int
    id: str
    weight: int


def must_join(run: Place, *, fits: bool, ahead: Place | None, program: Place | None) -> bool:
    """Whether a ready run joins the line of a semaphore or a key instead of taking a unit.

    So where the units do not fit, and where somebody is before it in the line: the first blocked run of its own lane
    (`ahead`), or the first program that waits (before a run of its rank). A heavy head must not starve.
    """
    behind = ahead is not None and ahead[:2] < run[:2]
    return not fits or behind or (program is not None and program.rank <= run.rank)


def programs_served(free: int, programs: Iterable[Place], first_run: Place | None) -> list[Place]:
    """The programs of a line, in order, that are granted: not behind any blocked run, as far as they fit."""
    before = takewhile(lambda program: first_run is None or program.rank <= first_run.rank, programs)
    return list(_fitting(free, before))


def runs_woken(free: int, lane: Iterable[Place], first_program: Place | None) -> list[Place]:
    """The blocked runs of one lane, in order, that are made ready, as far as they fit together.

    `first_program` is the first of those that still wait: no run behind it is woken.
    """
    before = takewhile(lambda run: first_program is None or run.rank < first_program.rank, lane)
    return list(_fitting(free, before))


def _fitting(free: int, line: Iterable[Place]) -> Iterator[Place]:
    """Who does not fit lets nobody behind pass."""
    for place in line:
        if place.weight > free:
            return
        free -= place.weight
        yield place


def check_weight(name: str, weight: int, limit: int) -> None:
    """Raises `Refused` for more units than the semaphore has."""
    if weight > limit:
        raise Refused(
            f"the semaphore {name!r} has a limit of {limit}: {weight} units never fit",
            field="weight",
            value=weight,
            allowed=f"1 to {limit}" if limit > 1 else "1",
        )


def check_same_limit(name: str, wanted: int | None, limit: int) -> None:
    """Raises `Refused` where a program means a semaphore of another limit."""
    if wanted not in {None, limit}:
        raise Refused(
            f"the semaphore {name!r} has a limit of {limit}", field="limit", value=wanted, allowed=f"{limit}, or none"
        )


def check_lowered(name: str, limit: int, heaviest: int) -> None:
    """Raises `Refused` where something in the line wants more units than the new limit."""
    if heaviest > limit:
        raise Refused(
            f"something that waits for the semaphore {name!r} wants {heaviest} units",
            field="limit",
            value=limit,
            allowed=f"{heaviest} and more",
        )


def in_use(name: str) -> Refused:
    """The error for deleting a semaphore that somebody holds or waits for."""
    message = f"units of the semaphore {name!r} are held or waited for"
    return Refused(message, field="name", value=name, allowed="a semaphore that nobody uses")


def no_semaphore(name: str) -> NotFound:
    """The error for a name that no semaphore has."""
    return NotFound(f"there is no semaphore {name!r} yet", field="semaphore", value=name)


def run_permit(run: Run, name: str, weight: int, now: Moment) -> Permit:
    """What a run holds of a semaphore after its claim."""
    return Permit(
        id=permit_of(run.id, name),
        semaphore=name,
        node=NodeId(run.node_id or ""),
        run_id=run.id,
        weight=weight,
        rank=run.rank,
        token=run.token,
        since=now,
    )


MOST_SWEPT = 4
"""How many semaphores one tick may serve."""


def has_room(active: int, coming: int, most: int | None) -> bool:
    """Whether so many more runs of a job may be active, where it may have `most` of them (None: any number).

    None coming is always right: an edit may have lowered the number.
    """
    return most is None or not coming or active + coming <= most


def full(job_id: JobId, most: int | None) -> Refused:
    """The error for a request of one run more than a job may have."""
    return Refused(
        f"the job {job_id!r} has {most} active runs, and no more may wait",
        field="max_waiting",
        value=most,
        allowed="a request when one of them has ended, or a larger max_waiting",
    )


def born(due: Moment, now: Moment) -> RunState:
    """The first state of a planned run."""
    return RunState.READY if due <= now else RunState.WAITING


class Cursor(NamedTuple):
    """What of a job guards a plan."""

    incarnation: Incarnation
    version: int
    fired_through: Moment
    state: JobState


def may_apply(plan: Plan, cursor: Cursor) -> bool:
    """Whether the plan was made from what the job still is."""
    made_from = Cursor(plan.incarnation, plan.version, plan.fired_from, JobState.ENABLED)
    return cursor == made_from


def was_applied(plan: Plan, cursor: Cursor | None, *, first_run_exists: bool) -> bool:
    """Whether a refused plan is refused because it took effect before: its caller's reply was lost."""
    if plan.runs or cursor is None:
        return first_run_exists
    moved = plan.fired_through > plan.fired_from
    return moved and cursor[:3] == (plan.incarnation, plan.version, plan.fired_through)


def was_replaced(stored: Job, new: Job) -> bool:
    """Whether `stored` is what an earlier call with `new` left: nobody has edited it since, it may have fired since."""
    return (
        (stored.incarnation, stored.version, stored.updated) == (new.incarnation, new.version, new.updated)
        and (stored.definition, stored.reason, stored.by) == (new.definition, new.reason, new.by)
        and (stored.state is new.state or stored.state is JobState.FINISHED)
    )


def may_replace(stored: Job, old: Job) -> bool:
    """Whether the job still is what the caller of `replace_job` read."""
    return (stored.incarnation, stored.version, stored.state, stored.fired_through) == (
        old.incarnation,
        old.version,
        old.state,
        old.fired_through,
    )


def may_hold(run: Run) -> bool:
    """Whether the run is to be held; a held one stays as it is. Raises `Refused` for one that runs or ended."""
    if run.state in {RunState.RUNNING, *ENDS}:
        allowed = "a run that has not started"
        raise Refused(f"run {run.id} is {run.state}", field="state", value=run.state, allowed=allowed)
    return run.state is not RunState.HELD


def may_resume(run: Run) -> bool:
    """Whether the run is held; what else has not ended stays as it is. Raises `Refused` for one that ended."""
    if run.state in ENDS:
        raise Refused(f"run {run.id} is {run.state}", field="state", value=run.state, allowed="a held run")
    return run.state is RunState.HELD


class Standing(NamedTuple):
    """What of a run guards a settle. `settled_*`: who settled it last, with which token."""

    running: bool
    node_id: NodeId | None
    token: Token
    settled_by: NodeId | None
    settled_token: Token | None


def judge(change: Change, standing: Standing | None, by: NodeId, nodes: Mapping[NodeId, NodeState]) -> Verdict:
    """Whether a change still holds. The owner settles its own runs; those of a dead node any living one may."""
    if standing is None:
        return Verdict.LOST
    if (standing.settled_by, standing.settled_token) == (by, change.token):
        return Verdict.ALREADY_APPLIED
    held = standing.running and (standing.node_id, standing.token) == (change.owner, change.token)
    alive = nodes.get(by) is NodeState.ALIVE
    allowed = change.owner == by or nodes.get(change.owner) is not NodeState.ALIVE
    return Verdict.APPLIED if held and alive and allowed else Verdict.LOST


def ending(change: Change, *, cancel: str | None, job_exists: bool) -> tuple[RunState, str | None]:
    """State and error to write for a change that holds.

    An order to cancel, or the job's deletion, may have come after the change was made. The order wins over everything
    but success, as in `tokimori.model.settle`; without its job a run does not go on.
    """
    if change.state in {RunState.SUCCEEDED, RunState.CANCELLED}:
        return change.state, change.error
    if cancel is not None:
        return RunState.CANCELLED, cancel
    if not job_exists and change.state not in ENDS:
        return RunState.CANCELLED, JOB_DELETED
    return change.state, change.error


def claimed_run(run: Run, node: NodeId) -> Run:
    """A ready run after its claim."""
    return replace(
        run,
        state=move(run.state, Event.CLAIM),
        token=Token(run.token + 1),
        attempt=run.attempt + 1,
        node_id=node,
        pid=None,
        started=None,
        exit_code=None,
        signal=None,
        error=None,
    )


def settled_run(run: Run, change: Change, state: RunState, error: str | None) -> Run:
    """A run after a change that holds; where the change knows no start, the one that a tick told stays."""
    return replace(
        run,
        state=state,
        due=change.due,
        rank=change.rank,
        failures=change.failures,
        lost=change.lost,
        started=run.started if change.started is None else change.started,
        pid=run.pid if change.pid is None else change.pid,
        ended=change.ended if state in ENDS else None,
        exit_code=change.exit_code,
        signal=change.signal,
        error=error,
        result=change.result if state is RunState.SUCCEEDED else None,
    )


def no_calendar(name: str) -> NotFound:
    """The error for a name that no calendar has."""
    return NotFound(f"there is no calendar {name!r}", field="calendar", value=name)


def child_run(parent: Run, edge: Edge, child: Job, place: int, lane: Lane | None) -> Run:
    """The run of a dependent job after the end of its parent; `place` keeps children in their order, 0 first.
    `lane` is that of the child.

    It inherits the nominal time, and the parent's result as its payload (where there is none, the parent's own one).
    Its id has the form of a UUIDv7 and is a function of parent and child: whoever repeats the settle makes the same.
    """
    ended = parent.due if parent.ended is None else parent.ended
    due = Moment(ended + place)
    digest = sha256(f"{parent.id}/{child.incarnation}".encode()).digest()
    priority = child.definition.priority
    return Run(
        id=RunId(uuid7(due, lambda size: digest[:size])),
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


NOT_RUN = {JobState.PAUSED: SkipReason.PAUSED, JobState.PARKED: SkipReason.PARKED}
"""Why a child in these states gets a skip instead of a run."""


def edges_by_job(*jobs: Job) -> dict[JobId, tuple[Edge, ...]]:
    """The edges that each of the jobs declares; those that declare none are left out."""
    edges = {job.id: edges_of(job.id, job.definition) for job in jobs}
    return {job_id: declared for job_id, declared in edges.items() if declared}


def is_parent(job_id: str) -> Refused:
    """The error for deleting a job after which others say that they run."""
    return Refused(
        f"other jobs run after {job_id}: delete them first, or with it (cascade)",
        field="id",
        value=job_id,
        allowed="a job after which none runs",
    )


FAMILY_CHANGED = "which jobs run after which was changed meanwhile: read it again"


def check_family(known: int, given: int | None) -> None:
    """Raises `FamilyChanged` where the caller checked edges against another family, or against none."""
    if given != known:
        raise FamilyChanged(FAMILY_CHANGED, field="parents")


def daily_counts(kept: Mapping[tuple[Moment, str], int], pruned: Mapping[tuple[Moment, str], int]) -> list[DailyCount]:
    """Kept and pruned rows by day and outcome, together."""
    return [
        DailyCount(
            day=day,
            outcome=str(outcome),
            count=kept.get((day, outcome), 0) + pruned.get((day, outcome), 0),
            pruned=pruned.get((day, outcome), 0),
        )
        for day, outcome in sorted({*kept, *pruned})
    ]
