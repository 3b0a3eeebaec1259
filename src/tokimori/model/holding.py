"""Holding and resuming of single runs."""

from tokimori.errors import Refused
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState


def may_hold(run: Run) -> bool:
    """Return whether to hold the run; a held one stays. Raises `Refused` for one that runs or has ended."""
    if run.state in {RunState.RUNNING, *ENDS}:
        allowed = "a run that has not started"
        raise Refused(f"run {run.id} is {run.state}", field="state", value=run.state, allowed=allowed)
    return run.state is not RunState.HELD


def may_resume(run: Run) -> bool:
    """Return whether the run is held; others that live stay as they are. Raises `Refused` for one that has ended."""
    if run.state in ENDS:
        raise Refused(f"run {run.id} is {run.state}", field="state", value=run.state, allowed="a held run")
    return run.state is RunState.HELD
