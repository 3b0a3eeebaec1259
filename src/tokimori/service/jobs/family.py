"""Jobs that run after others: checks for adding, editing and deleting a job, and for what runs hand on."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.attempt_notes import MOST_INHERITED, MOST_PAYLOAD
from tokimori.model.dependents import CHILDLESS, Edge, check_acyclic, check_children, most_children, only_after
from tokimori.model.ids import JobId
from tokimori.model.job import Job, edges_of
from tokimori.ports.store import Jobs
from tokimori.service.notifiers import NAMED, NotifiedStore, check_notified

T = TypeVar("T")

FEW = 5_000
"""Number of edges looked through within 20 ms; more of them beside the loop."""


async def checked_family(store: NotifiedStore, jobs: Sequence[Job]) -> int | None:
    """Return the version of the family with which these jobs agree; None if none of them has a parent or a failure job.

    Raises `InvalidInput` for a parent or a notifier that does not exist, and for a cycle.
    """
    await check_notified(store, jobs)
    declared = [edge for job in jobs for edge in edges_of(job.id, job.definition)]
    if not declared:
        return None
    family = await store.family()
    ids = {job.id for job in jobs}
    await _check_known(store, ({edge.parent for edge in declared} | {edge.child for edge in declared}) - ids)
    edges = [*(edge for edge in family.edges if edge.declared_by not in ids), *declared]
    await _looked_through(edges, lambda: _check_edges(family.edges, edges))
    return family.version


def _check_edges(before: Sequence[Edge], after: Sequence[Edge]) -> None:
    check_acyclic(after)
    check_children(before, after)


async def _looked_through(edges: Sequence[Edge], work: Callable[[], T]) -> T:
    return work() if len(edges) <= FEW else await asyncio.to_thread(work)


async def check_inherited(store: Jobs, job_id: JobId, payloads: Iterable[str | None]) -> None:
    """Refuse a payload that is too large for as many children as get it: all at once, when the run ends.

    Only one that no job could have is looked at. Raises `InvalidInput`.
    """
    size = max((len(payload.encode()) for payload in payloads if payload is not None), default=0)
    if size <= MOST_PAYLOAD:
        return
    edges = (await store.family()).edges
    most = await _looked_through(edges, lambda: most_children(edges, job_id))
    if size * most > MOST_INHERITED:
        raise InvalidInput(
            f"payload: {size} bytes are too many for each of the {most} jobs that get it from one run",
            field="payload",
            value=size,
            allowed=f"at most {max(MOST_PAYLOAD, MOST_INHERITED // most)} bytes, such as the address of a file",
        )


async def _check_known(store: Jobs, ids: Iterable[JobId]) -> None:
    for job_id in sorted(ids):
        try:
            await store.get_job(job_id)
        except NotFound:
            raise InvalidInput(
                f"parents: there is no job {job_id!r}", field="parents", value=job_id, allowed="ids of jobs"
            ) from None


async def dependents_of(store: Jobs, job_id: JobId) -> list[JobId]:
    """Return the jobs whose own definition says that they run after this one."""
    edges = (await store.family()).edges
    return sorted({edge.child for edge in edges if edge.parent == job_id and edge.declared_by == edge.child})


def deleted_with(edges: Sequence[Edge], job_id: JobId) -> tuple[Sequence[JobId], Sequence[JobId]]:
    """Return the job with all jobs that only it can start, and the jobs that merely lose a parent."""
    going = only_after(edges, job_id)
    gone = frozenset(going)
    own = {edge.child for edge in edges if edge.declared_by == edge.child and edge.parent in gone}
    return going, sorted(own - gone)


async def check_childless(store: Jobs, job_id: JobId) -> None:
    """Check that no job runs after this one. Raises `Refused`, which names the first ones."""
    children = await dependents_of(store, job_id)
    if children:
        named = ", ".join(children[:NAMED]) + (" and others" if len(children) > NAMED else "")
        raise Refused(
            f"{job_id} can't be deleted, because {named} run after it: delete them first, or all of them with "
            f"`tokimori job delete {job_id} --cascade`",
            field="id",
            value=job_id,
            allowed=CHILDLESS,
        )
