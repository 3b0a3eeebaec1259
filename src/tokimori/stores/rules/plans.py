"""Plans: if one still fits its job, or has already taken effect."""

from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.decide import Plan
from tokimori.model.ids import Incarnation
from tokimori.model.job import Job, JobState
from tokimori.model.target import Unreadable


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
