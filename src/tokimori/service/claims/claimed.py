"""Claimed runs, for the workers that have claimed them."""

from msgspec import Struct

from tokimori.clock import SECOND, Moment
from tokimori.model.attempt_notes import payload_for
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.parents import text_of
from tokimori.model.run import joined_as, parents_of
from tokimori.ports.work_source import WorkSource
from tokimori.service.claims.held import HeldRun
from tokimori.service.search.runs import parent_runs


class ClaimedRun(Struct, frozen=True, kw_only=True):
    """A run that a worker holds, with the `token` under which it reports the outcome.

    `type` is the name of the job's function. `schedule`, `delay` and `time_zone` are those of the job when the run was
    claimed. A run without a heartbeat for `alive_time` seconds, or beyond its `deadline` (the job's time-out), is taken
    away. `traceparent` is where the run stands in a trace (W3C Trace Context).
    """

    run_id: RunId
    token: Token
    job_id: JobId
    type: str
    payload: str | None
    attempt: int
    nominal: Moment
    due: Moment
    schedule: str | None = None
    delay: float = 0
    time_zone: str
    parent_id: RunId | None
    traceparent: str | None = None
    alive_time: float
    deadline: Moment | None


class HeartbeatAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat: for how long the run stays, and whether it is to end (`cancel`: the reason)."""

    run_id: RunId
    alive_time: float
    cancel: str | None


async def view_of(held: HeldRun, store: WorkSource) -> ClaimedRun:
    """Return the run as its worker sees it. A join of steps without a payload gets the list of their results."""
    run, definition = held.claimed.run, held.claimed.definition
    payload, joined = payload_for(run, definition), joined_as(run)
    if payload is None and joined == "runs":
        payload = text_of(await parent_runs(store, parents_of(run)), joined=joined)
    timeout = None if definition is None else definition.timeout
    return ClaimedRun(
        run_id=run.id,
        token=run.token,
        job_id=run.job_id,
        type="" if definition is None else definition.target.handler,
        payload=payload,
        attempt=run.attempt,
        nominal=run.nominal,
        due=run.due,
        schedule=None if definition is None else definition.schedule,
        delay=0 if definition is None else definition.delay,
        time_zone="UTC" if definition is None else definition.time_zone,
        parent_id=run.parent_id,
        traceparent=run.details.traceparent,
        alive_time=held.alive_time,
        deadline=None if timeout is None else Moment(held.since + round(timeout * SECOND)),
    )
