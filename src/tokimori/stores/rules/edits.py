"""Edits of jobs: comparisons with the stored job, and declared edges."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count

from tokimori.errors import FamilyChanged
from tokimori.model.dependents import Edge
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job, JobState, edges_of
from tokimori.stores.rules.errors import FAMILY_CHANGED, job_changed, taken
from tokimori.stores.rules.lines import MOST_STEPS

Edges = Mapping[JobId, tuple[Edge, ...]]
"""By the job that declares them."""


def not_there_yet(jobs: Sequence[Job], known: dict[JobId, Incarnation]) -> list[Job]:
    """Return the unknown jobs, each once. Raises `Conflict` if one has the id of another."""
    added = {job.id: job for job in jobs if job.id not in known}
    for job in jobs:
        if known.setdefault(job.id, job.incarnation) != job.incarnation:
            raise taken(job.id)
    return list(added.values())


def was_replaced(stored: Job, old: Job, new: Job) -> bool:
    """Return if `stored` is the result of an earlier call with `new`: not edited since, but perhaps fired.

    Raises `Conflict` if the job has changed since the caller of `replace_job` read it.
    """
    again = (
        (stored.incarnation, stored.version, stored.updated) == (new.incarnation, new.version, new.updated)
        and (stored.definition, stored.reason, stored.by) == (new.definition, new.reason, new.by)
        and (stored.state is new.state or stored.state is JobState.FINISHED)
    )
    read = (old.incarnation, old.version, old.state, old.fired_through)
    if not again and (stored.incarnation, stored.version, stored.state, stored.fired_through) != read:
        raise job_changed(old.id)
    return again


async def replace(
    old: Job,
    new: Job,
    family: int | None,
    *,
    read: Callable[[JobId], Awaitable[Job]],
    write: Callable[[Edges | None], Awaitable[str]],
    move: Callable[[Iterable[int]], Awaitable[None]],
) -> None:
    """See `Jobs.replace_job`. The row is compared again at the write; a loser reads again.

    `write` gets the edges, or None if they stay; `move` moves the runs of the job, in so many steps.
    """
    while True:
        stored = await read(old.id)
        if was_replaced(stored, old, new):
            return await move(range(MOST_STEPS))
        before, after = edges_by_job(stored), edges_by_job(new)
        is_blind = before != after and after and family is None
        match "other family" if is_blind else await write(None if before == after else after):
            case "other family":
                raise FamilyChanged(FAMILY_CHANGED, field="parents")
            case "moving":
                await move(count())
            case "begun":
                return await move(range(MOST_STEPS))
            case "replaced":
                return None
            case _:
                pass  # another job than was read


def edges_by_job(*jobs: Job) -> dict[JobId, tuple[Edge, ...]]:
    """Return the declared edges by job, without jobs that declare none."""
    edges = {job.id: edges_of(job.id, job.definition) for job in jobs}
    return {job_id: declared for job_id, declared in edges.items() if declared}
