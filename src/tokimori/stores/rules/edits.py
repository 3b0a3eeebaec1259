"""Edits of jobs: whether one still holds, and what it declares."""

from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState, edges_of


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


def edges_by_job(*jobs: Job) -> dict[JobId, tuple[Edge, ...]]:
    """The edges that each of the jobs declares; those that declare none are left out."""
    edges = {job.id: edges_of(job.id, job.definition) for job in jobs}
    return {job_id: declared for job_id, declared in edges.items() if declared}
