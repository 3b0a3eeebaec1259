"""The audit log, as it is written and read."""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from tokimori.errors import TokimoriError
from tokimori.model.access_token import Role
from tokimori.model.audit import KIND, AuditEntry, decode_entry, encode_entry, name_of, shown
from tokimori.model.document import Document, check_name, new_version
from tokimori.model.ids import RandomBytes
from tokimori.ports.documents import Documents
from tokimori.ports.ends import LATEST
from tokimori.service.access import WHOLE
from tokimori.service.operation import M, Part, operation
from tokimori.service.store_calls import Now
from tokimori.service.validation import MOST_LISTED, checked
from tokimori.service.views.access import AuditEntry as AuditEntryView
from tokimori.service.views.outside import list_of

log = logging.getLogger(__name__)

IN_TIME = LATEST // 2
"""What was written in this time nobody misses who reads events."""
NO_QUEUES: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})
MOST_TRIES = 5
"""Number of tries to write an entry that was written too late."""


class Recorded(Struct, frozen=True, kw_only=True):
    """An entry, and its id in the log."""

    id: str
    entry: AuditEntry


class Audit(Part[M]):
    """Audit log. Every method but `record` may raise `StoreError`."""

    noun, word = "audit", "entry"

    def __init__(self, store: Documents, now: Now, random: RandomBytes, author: str | None) -> None:
        self._store = store
        self._now = now
        self._random = random
        self._author = author

    @operation(Role.ADMIN, WHOLE, doing="Reading the audit log", gives=list_of(AuditEntryView.made))
    async def list(self, after: str | None = None, limit: int = 100) -> Sequence[Recorded]:
        """List entries, newest first; `after`: those older than the entry of this id."""
        if after is not None:
            check_name("after", after)
        found = await self._store.list_documents(KIND, after=after or "", limit=checked("limit", limit, MOST_LISTED))
        return [Recorded(id=each.name, entry=decode_entry(each.text)) for each in found]


async def record(
    audit: "Audit[Any]",
    what: str,
    of: str,
    before: object,
    after: object,
    *,
    event: str | None = None,
    queues: Mapping[str, Sequence[str]] = NO_QUEUES,
) -> None:
    """Record a change that is already made. A store that refuses the entry is reported in the log."""
    try:
        at = await audit._now()
        entry = AuditEntry(
            at=at,
            who=audit._author,
            what=what,
            of=of,
            before=shown(before),
            after=shown(after),
            event=event,
            queues={job_id: tuple(dict.fromkeys(names)) for job_id, names in queues.items()},
        )
        await _write(audit, entry)
    except TokimoriError as fault:
        log.warning("the audit log lacks that %r did %s to %s: %s", audit._author, what, of, fault)


async def _write(audit: "Audit[Any]", entry: AuditEntry) -> None:
    """Store the entry under the moment at which it is written, not that of the change.

    Readers of events look back `LATEST` at most. A writer that was frozen may write later than that. It then writes the
    entry again and deletes the first one, in this order, so that an error leaves at least one. A reader that has seen
    the first one receives the event twice, with the same id.
    """
    at, mark, late = entry.at, audit._random(4), None
    for _ in range(MOST_TRIES):
        name, version = name_of(at, lambda _: mark), new_version(audit._random)
        document = Document(kind=KIND, name=name, text=encode_entry(entry), version=version)
        await audit._store.put_document(document, None)
        if late is not None:
            await audit._store.delete_document(KIND, late.name, late.version)
        now = await audit._now()
        if now - at < IN_TIME:
            return
        at, late = now, document
