"""Lanes in which the runs of a job wait, by what the job's state allows."""

from tokimori.model.ids import Lane
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of

CLAIMABLE = frozenset({JobState.ENABLED, JobState.FINISHED})
"""States of a job whose runs have a lane."""


def lane_for(job: Job) -> Lane | None:
    """Where the job's runs wait: nowhere while it is paused or parked."""
    return lane_of(job.definition) if job.state in CLAIMABLE else None


def lane_of_forced(old: Job, new: Job) -> Lane | None:
    """Where the forced runs of a job wait that was stopped and still is: those are the ones that have a lane there."""
    return lane_of(new.definition) if not {old.state, new.state} & CLAIMABLE else None
