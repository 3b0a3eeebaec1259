"""Edits of jobs: whether one still holds, and what it declares."""

from collections.abc import Mapping

from tokimori.errors import Conflict
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState, edges_of

Edges = Mapping[JobId, tuple[Edge, ...]]
"""By the job that declares them."""


def was_replaced(stored: Job, old: Job, new: Job) -> bool:
    """Whether `stored` is what an earlier call with `new` left: nobody has edited it since, it may have fired since.

    Raises `Conflict` where the job is not any more what the caller of `replace_job` read.
    """
    again = (
        (stored.incarnation, stored.version, stored.updated) == (new.incarnation, new.version, new.updated)
        and (stored.definition, stored.reason, stored.by) == (new.definition, new.reason, new.by)
        and (stored.state is new.state or stored.state is JobState.FINISHED)
    )
    read = (old.incarnation, old.version, old.state, old.fired_through)
    if not again and (stored.incarnation, stored.version, stored.state, stored.fired_through) != read:
        raise Conflict(f"the job {old.id!r} was changed meanwhile: read it again", field="id", value=old.id)
    return again


def edges_by_job(*jobs: Job) -> dict[JobId, tuple[Edge, ...]]:
    """The edges that each of the jobs declares; those that declare none are left out."""
    edges = {job.id: edges_of(job.id, job.definition) for job in jobs}
    return {job_id: declared for job_id, declared in edges.items() if declared}
