"""Which jobs run after which: what adding, editing and deleting a job have to know of the others."""

from collections.abc import Iterable, Sequence

from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.dependents import check_acyclic
from tokimori.model.ids import JobId
from tokimori.model.job import Job, edges_of
from tokimori.ports.store import Jobs


async def checked_family(store: Jobs, jobs: Sequence[Job]) -> int | None:
    """The version of the family into which these jobs fit; None where none of them has a parent or a failure job.

    Raises `InvalidInput` for a job that there is not, and for a cycle.
    """
    declared = [edge for job in jobs for edge in edges_of(job.id, job.definition)]
    if not declared:
        return None
    family = await store.family()
    ids = {job.id for job in jobs}
    await _check_known(store, ({edge.parent for edge in declared} | {edge.child for edge in declared}) - ids)
    check_acyclic([*(edge for edge in family.edges if edge.declared_by not in ids), *declared])
    return family.version


async def _check_known(store: Jobs, ids: Iterable[JobId]) -> None:
    for job_id in sorted(ids):
        try:
            await store.get_job(job_id)
        except NotFound:
            raise InvalidInput(
                f"parents: there is no job {job_id!r}", field="parents", value=job_id, allowed="ids of jobs"
            ) from None


async def dependents_of(store: Jobs, job_id: JobId) -> list[JobId]:
    """The jobs that say that they run after this one."""
    edges = (await store.family()).edges
    return sorted({edge.child for edge in edges if edge.parent == job_id and edge.declared_by == edge.child})


async def check_childless(store: Jobs, job_id: JobId) -> None:
    """Raises `Refused` where jobs run after this one."""
    children = await dependents_of(store, job_id)
    if children:
        raise Refused(
            f"{', '.join(children)} run after {job_id}: delete them first, or with it (cascade)",
            field="id",
            value=job_id,
            allowed="a job after which none runs",
        )
