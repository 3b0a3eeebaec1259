"""E-mails of notifications: what they say is read just before they are sent."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol
from uuid import UUID

import msgspec

from tokimori.clock import Moment, parse_moment
from tokimori.errors import NotFound
from tokimori.model.email import Email
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job
from tokimori.model.mail import MailFacts, mail_of, shown
from tokimori.model.notifier import NotifyOn
from tokimori.model.notifying import Notification
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import Jobs, RunFilter, Runs

_ROW = 100
"""So many of the newest runs are looked at for failures in a row."""

AddressOf = Callable[[], str | None]
"""Tells the address of the node's page; None: it has none."""


class MailStore(Jobs, Runs, Protocol):
    """Questions to the store."""

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """See `Nodes`."""
        ...


async def mailed(store: MailStore, notifier: Job, notification: Notification, address: AddressOf) -> Notification:
    """Return the notification with what an e-mail says of it; that of another notifier as it is.

    Templates of the notifier stay.
    """
    terms = notifier.definition.notifier
    if not isinstance(notifier.definition.target, Email) or terms is None:
        return notification
    payload: dict[str, Any] = msgspec.json.decode(notification.payload)
    mail = mail_of(await _facts(store, payload, address))
    payload |= {"subject": mail.subject} if terms.subject is None else {}
    payload |= {"text": mail.text, "html": mail.html} if terms.text is None else {}
    return msgspec.structs.replace(notification, payload=msgspec.json.encode(payload).decode())


async def _facts(store: MailStore, payload: Mapping[str, Any], address: AddressOf) -> MailFacts:
    first, *others = payload["runs"]
    event, run, job = NotifyOn(payload["event"]), None, None
    with suppress(NotFound):
        run = None if first["run_id"] is None else await store.get_run(RunId(first["run_id"]))
    with suppress(NotFound):
        job = await store.get_job(JobId(first["job_id"]))
    root = address()
    return MailFacts(
        event=event,
        job_id=first["job_id"],
        at=Moment(parse_moment(first["at"], field="at")),
        count=payload["count"],
        job=job,
        run=run,
        host=None if run is None or run.node_id is None else await _host(store, run.node_id),
        row=0 if run is None else await _row(store, run),
        said=first["error"],
        output=None if run is None or not run.attempt else await store.output(run.id, run.attempt),
        others=tuple(_line(each) for each in others),
        link=None if root is None or run is None else f"{root.rstrip('/')}/runs/{run.id}",
    )


async def _host(store: MailStore, node_id: str) -> str | None:
    return next((node.host for node in await store.list_nodes() if node.id == node_id), None)


async def _row(store: MailStore, run: Run) -> int:
    """Return how many runs of the job have failed in a row, up to this one."""
    if run.state is not RunState.FAILED:
        return 0
    states = frozenset({RunState.SUCCEEDED, RunState.FAILED})
    behind = RunId(str(UUID(int=UUID(run.id).int + 1)))
    found = await store.list_runs(RunFilter(job_id=run.job_id, states=states, before=behind, limit=_ROW, longest=0))
    good = (number for number, each in enumerate(found) if each.state is not RunState.FAILED)
    return next(good, len(found))


def _line(occasion: Mapping[str, Any]) -> str:
    said = [occasion["at"], occasion["job_id"], occasion["run_id"], shown(occasion["error"] or "")]
    return "  ".join(each for each in said if each)
