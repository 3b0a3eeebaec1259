"""Entries of the audit log for jobs that the engine parks. Readers of events see them as they see people's changes."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Protocol

from tokimori.clock import Moment
from tokimori.errors import NotFound, TokimoriError
from tokimori.model.audit import KIND, PARK, AuditEntry, encode_entry, name_of, shown
from tokimori.model.document import Document, new_version
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Job, JobState
from tokimori.model.settle import PARKED_BY
from tokimori.model.transitions import RunState
from tokimori.ports.documents import Documents
from tokimori.ports.working import Change, Verdict

log = logging.getLogger(__name__)

TOGETHER = 20
"""Entries written at a time: the node waits for them, and one common fault may park hundreds of jobs."""


class Parkings(Documents, Protocol):
    """Questions to the store about a parked job."""

    async def now(self) -> Moment:
        """See `Schema.now`."""
        ...

    async def get_job(self, job_id: JobId) -> Job:
        """See `Jobs.get_job`."""
        ...


async def record_parked(store: Parkings, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
    """Write entries for the jobs that these changes have parked. A failure to write fails nothing, as they are
    parked."""
    pairs, failure = zip(changes, verdicts, strict=True), RunState.FAILED
    ended = [change for change, verdict in pairs if change.state is failure and verdict is Verdict.APPLIED]
    failed: dict[JobId, list[Change]] = {}
    for change in ended:
        log.info("run %s of job %s failed: %.500s", change.run_id, change.job_id, change.error)
        if change.parks:
            failed.setdefault(change.job_id, []).append(change)
    line = list(failed.items())
    for first in range(0, len(line), TOGETHER):
        await asyncio.gather(*(_record_parkings(store, *each) for each in line[first : first + TOGETHER]))


async def _record_parkings(store: Parkings, job_id: JobId, changes: Sequence[Change]) -> None:
    """Write an audit entry if one of these changes has parked the job, and no later failure of another run."""
    with _whatever_fails(job_id), suppress(NotFound):
        job = await store.get_job(job_id)
        if job.state is JobState.PARKED and any(change.error == job.reason for change in changes):
            await record_parking(store, None, job, changes[-1].run_id)


async def record_parking(store: Parkings, before: Job | None, job: Job, cause: str) -> None:
    """Write that the job was parked. `cause` is unique to each time."""
    log.warning("job %s is parked: %s; `tokimori job resolve %s` enables it", job.id, job.reason, job.id)
    with _whatever_fails(job.id):
        at, random = await store.now(), _bytes_of(cause)
        entry = AuditEntry(
            at=at,
            who=PARKED_BY,
            what=PARK,
            of=f"job {job.id}",
            event="job.parked",
            before=None if before is None else shown(_fact(before)),
            after=shown(_fact(job)),
            queues={job.id: (job.definition.queue,)},
        )
        name, version = name_of(at, random), new_version(random)
        await store.put_document(Document(kind=KIND, name=name, text=encode_entry(entry), version=version), None)


@contextmanager
def _whatever_fails(job_id: JobId) -> Iterator[None]:
    try:
        yield
    except TokimoriError as fault:
        log.warning("can't write to the audit log that job %s was parked: %s", job_id, fault)


def _fact(job: Job) -> object:
    return {"state": job.state, "reason": job.reason, "definition": job.definition}


def _bytes_of(cause: str) -> RandomBytes:
    return lambda number: sha256(cause.encode()).digest()[:number]
