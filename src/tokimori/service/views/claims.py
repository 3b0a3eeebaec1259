"""Runs of workers as JSON."""

from datetime import datetime

from msgspec import Struct

from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.transitions import RunState
from tokimori.service.views.outside import Length, Outside


class WorkerRun(Outside, frozen=True, kw_only=True):
    """A run that a worker has; see `ClaimedRun`."""

    run_id: RunId
    token: Token
    job_id: JobId
    type: str
    payload: str | None
    attempt: int
    nominal: datetime
    due: datetime
    time_zone: str
    parent_id: str | None
    traceparent: str | None
    alive_time: Length
    deadline: datetime | None


class ClaimedRun(WorkerRun, frozen=True, kw_only=True):
    """A run that a worker has, with the `schedule` and the `delay` of its job when it was claimed."""

    schedule: str | None
    delay: Length


class HeartbeatAnswer(Outside, frozen=True, kw_only=True):
    """The answer to a heartbeat: for how long the run stays, and whether it is to end (`cancel`: the reason)."""

    run_id: str
    alive_time: Length
    cancel: str | None


class ReportedState(Struct, frozen=True, kw_only=True):
    """State of a run after its worker's word."""

    run_id: str
    state: str


def reported_state(run_id: str, state: RunState) -> ReportedState:
    """Return the state of the run as JSON shows it."""
    return ReportedState(run_id=run_id, state=state.value)
