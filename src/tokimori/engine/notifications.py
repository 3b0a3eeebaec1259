"""Notifications: read the ends of runs, and request a run of a notifier for each notification.

One node does so at a time. It writes what it has read and what it will send into one document before it sends anything.
So the next node sends the same notifications under the same ids, and each is one run.
"""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Protocol
from uuid import UUID

import msgspec
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment, parse_moment
from tokimori.engine.notification_sources import KnownJobs, LastingTrouble, NotifyReader, NotifyReading
from tokimori.errors import Conflict, NotFound, Refused, StoreError
from tokimori.model.document import Document, new_version
from tokimori.model.email import Email
from tokimori.model.ids import JobId, NodeId, RandomBytes, RunId, uuid7
from tokimori.model.job import Job
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.mail import MailFacts, mail_of, shown
from tokimori.model.notifier import NotifyOn, notifier_id
from tokimori.model.notifying import (
    KIND,
    NAME,
    Notification,
    Notifying,
    ZonedNotifiers,
    decode_notifying,
    encode_notifying,
    gathered_with,
    is_news,
    sending_what_is_due,
)
from tokimori.model.run import Run, manual_origin
from tokimori.model.transitions import RunState
from tokimori.ports.documents import Documents
from tokimori.ports.ends import Endings
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import Jobs, RunFilter, Runs

_ROW = 100
"""Number of the newest runs looked at for failures in a row."""

AddressOf = Callable[[], str | None]
"""Function that returns the address of the node's page; None: it has none."""


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
    """Return the number of runs of the job that have failed one after the other, this run included."""
    if run.state is not RunState.FAILED:
        return 0
    states = frozenset({RunState.SUCCEEDED, RunState.FAILED})
    behind = RunId(str(UUID(int=UUID(run.id).int + 1)))
    found = await store.list_runs(RunFilter(job_id=run.job_id, states=states, before=behind, limit=_ROW, longest=0))
    good = (number for number, each in enumerate(found) if each.state is not RunState.FAILED)
    return next(good, len(found))


def _line(occasion: Mapping[str, Any]) -> str:
    parts = [occasion["at"], occasion["job_id"], occasion["run_id"], shown(occasion["error"] or "")]
    return "  ".join(each for each in parts if each)


log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds from one look to the next."""
IDLE, SOON = 75.0, 5.0
"""Seconds between looks without a notifier, and after a write that may have added one."""
ASIDE = 3.0
"""While another node does it."""
SILENT = 10 * SECOND
"""Microseconds after which a node that has not written is dead or too busy."""
WRITTEN = 4.0
"""Seconds after which the progress is written although nothing has happened."""


class NotifyingStore(MailStore, Documents, Endings, Protocol):
    """Questions of notifying to the store."""


class Messenger:
    """Notifying by one node, see the module. All times but moments are seconds of the caller's monotonic clock."""

    def __init__(
        self, store: NotifyingStore, at: float, random: RandomBytes, address: AddressOf = lambda: None
    ) -> None:
        self._store = store
        self._address = address
        self._random = random
        self._known = KnownJobs(store)
        self._reader = NotifyReader(store, self._known)
        self._lasting = LastingTrouble(store, self._known)
        self._kept: tuple[Notifying, int] | None = None
        """What the document says, and its version; None: it is to be read."""
        self._state: Notifying | None = None
        self._is_idle = self._seems_ahead = False
        self._gone: Set[str] = frozenset()
        """Notifiers that jobs name and that no longer exist: logged once."""
        self.next_at = at

    def wake(self, at: float) -> None:
        """Note that the store has changed: a notifier may be new."""
        if self._is_idle:
            self._is_idle, self.next_at = False, min(self.next_at, at + SOON)

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. A failure hinders nothing else, and is retried from the document."""
        if at < self.next_at:
            return False
        self.next_at = at + EVERY
        try:
            return await self._go_on(by, now, at)
        except Conflict:  # another node does it
            self._rest(at + ASIDE)
        except StoreError as fault:
            log.warning("notifications wait: %s", fault)
            self._rest(at + ASIDE)
        except Exception:
            log.exception("notifying failed")
            self._rest(at + IDLE)
        except BaseException:
            self._forget()
            raise
        return False

    def _rest(self, until: float) -> None:
        self._forget()
        self.next_at = until

    def _forget(self) -> None:
        self._kept = self._state = None
        self._lasting.forget()

    async def _go_on(self, by: NodeId, now: Moment, at: float) -> bool:
        notifiers = await self._known.notifiers(at)
        if not notifiers:
            self._forget()
            self._is_idle, self.next_at = True, at + IDLE
            return False
        state = await self._taken_progress(by, now)
        if state is None:
            self.next_at = at + ASIDE
            return False
        reading = await self._lasting.read(await self._reader.read(state, now, at), now, at)
        notifiers = await self._with_new(notifiers, reading, at)
        state = gathered_with(reading.state, reading.happened, notifiers, now)
        state = sending_what_is_due(state, notifiers, now, lambda: uuid7(now, self._random))
        await self._write(replace(state, owner=by, beat=now))
        if reading.more or any(each.due <= now for each in state.gathered):
            self.next_at = at
        return await self._send(state.sending, now)

    async def _with_new(self, notifiers: ZonedNotifiers, reading: NotifyReading, at: float) -> ZonedNotifiers:
        """Return the notifiers. Read them again if an occasion names an unknown one, as it is not reported later."""
        named = {name: occasion.job_id for occasion, names in reading.happened for name in names}
        if named.keys() <= notifiers.keys():
            return notifiers
        notifiers = await self._known.notifiers(at, fresh=0)
        gone = named.keys() - notifiers.keys()
        for name in sorted(gone - self._gone):
            log.warning("%s names the notifier %s, which does not exist: it gets no notifications", named[name], name)
        self._gone = gone | (self._gone - notifiers.keys())
        return notifiers

    async def _taken_progress(self, by: NodeId, now: Moment) -> Notifying | None:
        """Return the progress of notifying, from which this node goes on. None: another node notifies."""
        if self._state is None:
            self._kept = await self._stored_progress()
            self._state = Notifying(written=self._known.since) if self._kept is None else self._kept[0]
            if self._state.owner not in ("", by) and not self._is_over(self._state.beat, now):
                self._forget()
                return None
        if self._state.written < self._known.since:  # there was no notifier then
            self._state = replace(self._state, written=self._known.since, tie="")
        return self._state

    def _is_over(self, beat: Moment, now: Moment) -> bool:
        """Return if the node that notifies is silent. If it seems ahead, this one may have been frozen since `now`.

        If it is ahead at the next look too, the clock was set back: then its notifications are read anew.
        """
        was_ahead, self._seems_ahead = self._seems_ahead, beat >= now + SILENT
        return now >= beat + SILENT or (was_ahead and self._seems_ahead)

    async def _stored_progress(self) -> tuple[Notifying, int] | None:
        try:
            document = await self._store.get_document(KIND, NAME)
        except NotFound:
            return None
        return decode_notifying(document.text), document.version

    async def _write(self, state: Notifying) -> None:
        """Raise `Conflict` if another node does it."""
        self._state = state
        if self._kept is not None and not is_news(state, self._kept[0], WRITTEN):
            return
        replaces = None if self._kept is None else self._kept[1]
        version = new_version(self._random) if replaces is None else replaces + 1
        document = Document(kind=KIND, name=NAME, text=encode_notifying(state), version=version)
        await self._store.put_document(document, replaces)
        self._kept = state, version

    async def _send(self, notifications: Sequence[Notification], now: Moment) -> bool:
        """Request the runs. A repeated request gets the same runs."""
        for name in sorted({each.notifier for each in notifications}):
            await self._send_to(name, [each for each in notifications if each.notifier == name], now)
        if notifications and self._state is not None:
            self._state = replace(self._state, sending=())
        return bool(notifications)

    async def _send_to(self, name: str, notifications: Sequence[Notification], now: Moment) -> None:
        """Request as many runs as find room, fewer at a time: the store adds all of them or none."""
        left, most = list(notifications), len(notifications)
        while left:
            try:
                job = await self._store.get_job(notifier_id(name))
                some = [await mailed(self._store, job, each, self._address) for each in left[:most]]
                await self._store.add_runs([_run(job, each, now) for each in some], now)
                left = left[most:]
            except (NotFound, Refused) as fault:
                if fault.field != "max_waiting" or most == 1:
                    log.warning("notifier %s: %d notifications are not sent: %s", name, len(left), fault)
                    return
                most = min(most, len(left)) // 2 or 1


def _run(job: Job, notification: Notification, now: Moment) -> Run:
    priority = job.definition.priority
    return Run(
        id=notification.id,
        job_id=job.id,
        incarnation=job.incarnation,
        origin=manual_origin(f"notify:{notification.id}"),
        nominal=now,
        due=now,
        state=RunState.READY,
        priority=priority,
        rank=rank_of(now, priority),
        lane=lane_of(job.definition),
        created=now,
        payload=notification.payload,
        concurrency_key=job.definition.concurrency_key,
    )
