"""Reasons why something does not start, as values and as sentences. Pure."""

from enum import StrEnum

from msgspec import Struct

from tokimori.model.ids import JobId, RunId
from tokimori.model.lanes import units_apart
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, is_rate_alone, semaphore_of
from tokimori.model.transitions import RunState


class Cause(StrEnum):
    """Causes that may hold a run or a job."""

    PAUSED = "paused"
    PARKED = "parked"
    DELETED = "deleted"
    UNREADABLE = "unreadable"
    QUEUE_PAUSED = "queue paused"
    HELD = "held"
    APPROVAL = "approval"
    NO_NODE = "no node"
    NO_SUCH_NODE = "no such node"
    """Nodes run, and none of them may run this: a label or a handler is missing."""
    NODES_FULL = "nodes full"
    PLACE = "place"
    KEY = "key"
    SEMAPHORE = "semaphore"
    RATE = "rate"
    """So many units were taken as its rate, or that of its job or queue, allows in a period."""
    TOO_HEAVY = "too heavy"
    SEMAPHORES_AWAY = "semaphores away"
    CLOCK = "clock"
    AHEAD = "ahead"
    """A clock that was ahead has had it decide moments that are to come."""
    NOT_DUE = "not due"
    WINDOW = "window"
    """It is before `starts_at`, or after `ends_at`."""
    DAY_OFF = "day off"
    SKIPPED = "skipped"
    """The newest occurrence became no run."""
    FINISHED = "finished"
    ON_DEMAND = "on demand"
    PARENTS = "parents"
    SPAWNED = "spawned"
    """It waits for the ends of runs that it has spawned."""
    EPSILON = "epsilon"
    OVERDUE = "overdue"
    """It should have ended well by now: another reason says why it has not."""
    DRAINING = "draining"
    """Its worker process takes no more runs, and is ended soon."""
    SILENT = "silent"
    """Its worker process does not answer."""
    BESIDE = "beside"
    """Another run holds its key, which it does not take back: both go on."""
    ENDED = "ended"
    NEXT = "next"
    """Nothing holds it: it is about to start."""


AT_REST = frozenset(
    {Cause.NOT_DUE, Cause.ON_DEMAND, Cause.PARENTS, Cause.SPAWNED, Cause.NEXT, Cause.BESIDE, Cause.ENDED}
)
"""Causes that are shown only on request: all is as it was wanted."""


class HeldBy(Struct, frozen=True, kw_only=True):
    """A run, or (without `run_id`) a program, that has what another run waits for.

    A run whose `state` is `ready` does not run yet: it is the next in line.
    """

    run_id: RunId | None = None
    job_id: JobId | None = None
    state: str | None = None
    host: str | None = None
    pid: int | None = None


class Reason(Struct, frozen=True, kw_only=True):
    """A reason that holds a run or a job back, in words, and the command that mends it (`mend`).

    A few `holders` are named, and `others` counts the rest.
    """

    cause: Cause
    text: str
    mend: str | None = None
    holders: tuple[HeldBy, ...] = ()
    others: int = 0


class Why(Struct, frozen=True, kw_only=True):
    """Reasons that hold a run, or (without `run_id`) a job; none if nothing does. `state` is its state."""

    job_id: JobId
    run_id: RunId | None = None
    state: str
    reasons: tuple[Reason, ...]


def waits_for(run: Run, most: int | None = None) -> str | None:
    """Return the resource that a blocked run waits for, or that a ready run needs from another store, by its own row;
    else None.

    `most` is the limit of the resource, if it is known.
    """
    if run.state is RunState.READY and run.lane is not None and (apart := units_apart(run.lane)):
        return f"units of the semaphores in another store: {', '.join(name for name, _ in apart)}"
    if run.state is not RunState.BLOCKED:
        return None
    semaphore = semaphore_of(run.blocked_on)
    if semaphore is not None and is_rate_alone(semaphore):
        return "the rate of its job" if semaphore.startswith("job:") else f"the rate of the queue {semaphore[6:]}"
    if semaphore is not None:
        return f"units of the semaphore {semaphore}"
    limit = "" if most is None else f" {most}"
    if run.blocked_on == KEY_LINE:
        return f"a place of the key {run.concurrency_key!r} (max_running_per_key{limit})"
    return f"a place of its job (max_running{limit})"


def reason_text(reason: Reason) -> str:
    """Return the reason as one sentence, without a full stop."""
    held, by = _listed(reason), "among them" if reason.cause is Cause.SPAWNED else "held by"
    return f"{reason.text}{f', {by} {held}' if held else ''}{f': {reason.mend}' if reason.mend else ''}"


def _listed(reason: Reason) -> str:
    names = [name_of(holder, with_job=reason.cause in {Cause.SEMAPHORE, Cause.SPAWNED}) for holder in reason.holders]
    if reason.others:
        names.append(f"{reason.others} {'other' if reason.others == 1 else 'others'}")
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def name_of(holder: HeldBy, *, with_job: bool = False) -> str:
    """Return the holder in words."""
    if holder.run_id is None:
        return f"pid {holder.pid} on {holder.host}"
    of_job = f" of job {holder.job_id}" if with_job and holder.job_id is not None else ""
    return f"run {holder.run_id}{of_job}{', which is next in line' if holder.state == RunState.READY else ''}"
