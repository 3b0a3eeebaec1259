"""Notifiers: checks of the names by which jobs refer to them, and the fields of new ones."""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar, cast

from msgspec import to_builtins

from tokimori.clock import Moment
from tokimori.errors import Conflict, InvalidInput, NotFound, Refused
from tokimori.model.document import Document
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job
from tokimori.model.notification import Occasion, begun, payload_of
from tokimori.model.notifier import PREFIX, RETRY, NotifyOn, name_of, notifier_id
from tokimori.model.notifying import KIND, SUCCESSES
from tokimori.model.words import check_word
from tokimori.ports.documents import Documents
from tokimori.ports.store import Jobs
from tokimori.service.definitions.arguments import JobArguments
from tokimori.service.store_calls import all_jobs

_T = TypeVar("_T")
NAMED = 10
"""Number of jobs named in a refusal to delete what they need."""


class NotifiedStore(Jobs, Documents, Protocol):
    """Questions to the store."""


async def check_notified(store: NotifiedStore, jobs: Sequence[Job]) -> None:
    """Refuse jobs that name unknown notifiers. Raises `InvalidInput`.

    Nodes look at successful runs only after a job has asked for that, which is recorded here.
    """
    known, names = {job.id for job in jobs}, _names(jobs)
    for name, field in sorted(names.items()):
        if notifier_id(name) not in known:
            await _check_there(store, name, field)
    if any(NotifyOn.SUCCESS in job.definition.notify for job in jobs):
        with suppress(Conflict):  # it was noted before
            await store.put_document(Document(kind=KIND, name=SUCCESSES, text="", version=1), None)


def _names(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the names of notifiers, each with a field that names it."""
    named = [(name, event) for job in jobs for event, names in job.definition.notify.items() for name in names]
    return {name: f"notify.{event}" for name, event in reversed(named)}


async def _check_there(store: Jobs, name: str, field: str) -> None:
    try:
        await store.get_job(notifier_id(name))
    except NotFound:
        raise InvalidInput(
            f"{field}: there is no notifier {name!r}: `tokimori notifier add` makes it",
            field=field,
            value=name,
            allowed="See `tokimori notifier list`.",
        ) from None


async def check_unnamed(store: Jobs, job_id: JobId) -> None:
    """Refuse a notifier that other jobs name. Raises `Refused`, which lists the first of them."""
    if not job_id.startswith(PREFIX):
        return
    found: list[JobId] = []
    async for job in all_jobs(store):
        if job.id != job_id and notifies(job.definition, job_id):
            found.append(job.id)
        if len(found) > NAMED:
            break
    if found:
        raise still_named(job_id, ", ".join(found[:NAMED]) + (" and others" if len(found) > NAMED else ""))


def notifies(definition: Definition, notifier: JobId) -> bool:
    """Return whether a job of this definition notifies the notifier of something."""
    return any(notifier_id(name) == notifier for names in definition.notify.values() for name in names)


def still_named(notifier: JobId, jobs: str) -> Refused:
    """Return why a notifier can't be deleted."""
    return Refused(
        f"the notifier {name_of(notifier)!r} can't be deleted, because jobs name it, which would notify nobody: {jobs}",
        field="id",
        value=notifier,
        allowed="a notifier that no job names; to delete one all the same: --force (force=True)",
    )


async def without_names(notifier: str, doing: Awaitable[_T]) -> _T:
    """Delete or rename a job. A refusal does not list jobs outside the scope."""
    try:
        return await doing
    except Refused as fault:
        refusal = still_named(JobId(notifier), "")
        if not fault.message.startswith(refusal.message):
            raise
        raise Refused(f"{refusal.message}ask an admin which", field="id", value=notifier) from fault


TESTED_JOB = JobId("test")


def id_of(name: object) -> JobId:
    """Return the id of the notifier's job. Raises `InvalidInput`."""
    check_word("notifier", name)
    return notifier_id(str(name))


def notifier_fields(said: Mapping[str, Any]) -> JobArguments:
    """Return the fields of a new notifier's job. A request is a POST, unless something else is said."""
    fields = {"notifier": {}, "retry": None, **said}
    if fields["retry"] is None or isinstance(fields["retry"], Mapping):  # else it is refused as that of any job
        fields["retry"] = {**to_builtins(RETRY), **(fields["retry"] or {})}
    if fields.get("url") is not None and fields.get("method") is None:
        fields["method"] = "POST"
    if fields.get("schedule") is not None:
        message = "schedule: a notifier runs when there is something to notify of"
        raise InvalidInput(message, field="schedule", value=fields["schedule"], allowed="none")
    return cast(JobArguments, fields)


def trial_payload(job: Job, name: str, now: Moment) -> str:
    """Return the payload of a trial notification. Raises `NotFound` for another job."""
    notifier = job.definition.notifier
    if notifier is None:
        raise NotFound(f"there is no notifier {name!r}", field="notifier", value=name)
    error = "nothing has failed: this notification tries the notifier"
    occasion = Occasion(event=NotifyOn.FAILURE, job_id=TESTED_JOB, at=now, error=error)
    return payload_of(begun(name, occasion, "", now), f"test-{now}", notifier)
