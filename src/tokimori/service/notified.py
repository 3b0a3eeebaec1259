"""Whom jobs tell: the notifiers that they name must be there."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from tokimori.errors import Conflict, InvalidInput, NotFound
from tokimori.model.document import Document
from tokimori.model.job import Job
from tokimori.model.notifier import NotifyOn, notifier_id
from tokimori.model.notifying import KIND, SUCCESSES
from tokimori.ports.documents import Documents
from tokimori.ports.store import Jobs


class NotifiedStore(Jobs, Documents, Protocol):
    """What it asks of the store."""


async def check_notified(store: NotifiedStore, jobs: Sequence[Job]) -> None:
    """Check that there are the notifiers that these jobs name, or are among them. Raises `InvalidInput`.

    Nodes look at each run that succeeds only once a job has asked for that, which is noted here.
    """
    known, names = {job.id for job in jobs}, _names(jobs)
    for name, field in sorted(names.items()):
        if notifier_id(name) not in known:
            await _check_there(store, name, field)
    if any(NotifyOn.SUCCESS in job.definition.notify for job in jobs):
        with suppress(Conflict):  # it was noted before
            await store.put_document(Document(kind=KIND, name=SUCCESSES, text="", version=1), None)


def _names(jobs: Sequence[Job]) -> dict[str, str]:
    """The names of notifiers, each with a field that names it."""
    named = [(name, event) for job in jobs for event, names in job.definition.notify.items() for name in names]
    return {name: f"notify.{event}" for name, event in reversed(named)}


async def _check_there(store: Jobs, name: str, field: str) -> None:
    try:
        await store.get_job(notifier_id(name))
    except NotFound:
        raise InvalidInput(
            f"{field}: there is no notifier {name!r}: `tokimori notifier add {name} …` makes it",
            field=field,
            value=name,
            allowed="names of notifiers: `tokimori notifier list`",
        ) from None
