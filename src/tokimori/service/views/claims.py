"""Runs of workers as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.transitions import RunState
from tokimori.service.claimed import ClaimedRun
from tokimori.service.views.stamps import stamp


class ClaimView(Struct, frozen=True, kw_only=True):
    """A run that a worker has; see `ClaimedRun`."""

    run_id: str
    token: int
    job_id: str
    type: str
    payload: str | None
    attempt: int
    nominal: str
    due: str
    time_zone: str
    parent_id: str | None
    traceparent: str | None
    alive_time: float
    deadline: str | None


class ToldView(Struct, frozen=True, kw_only=True):
    """State of a run after its worker's word."""

    run_id: str
    state: str


def claim_view(run: ClaimedRun) -> ClaimView:
    """Return the run as JSON shows it."""
    return ClaimView(
        run_id=run.run_id,
        token=run.token,
        job_id=run.job_id,
        type=run.type,
        payload=run.payload,
        attempt=run.attempt,
        nominal=format_moment(run.nominal),
        due=format_moment(run.due),
        time_zone=run.time_zone,
        parent_id=run.parent_id,
        traceparent=run.traceparent,
        alive_time=run.alive_time,
        deadline=stamp(run.deadline),
    )


def told_view(run_id: str, state: RunState) -> ToldView:
    """Return the state of the run as JSON shows it."""
    return ToldView(run_id=run_id, state=state.value)
