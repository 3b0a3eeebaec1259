"""Lanes in which the runs of a job wait, by what the job's state allows."""

from tokimori.model.ids import Incarnation, Lane
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of

CLAIMABLE = frozenset({JobState.ENABLED, JobState.FINISHED})
"""States of a job whose runs have a lane."""


class StillMoving(Exception):
    """Not all runs of a job have followed its last change, and what is asked can't be told from that."""

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation


MOST_MOVED = 500
"""So many runs of a job follow its change in one transaction."""
MOST_STEPS = 20
"""So many transactions of that kind does whoever changes a job wait for; the ticks of nodes see to the rest."""


def lane_for(job: Job) -> Lane | None:
    """Return the lane of the job's runs: none while it is paused or parked."""
    return lane_of(job.definition) if job.state in CLAIMABLE else None


def lane_of_forced(old: Job, new: Job) -> Lane | None:
    """Return the lane of forced runs of a job that was stopped and still is: only they have one there."""
    return lane_of(new.definition) if not {old.state, new.state} & CLAIMABLE else None
