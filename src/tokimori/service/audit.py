"""The audit log, as it is written and read."""

import logging
from collections.abc import Sequence

from msgspec import Struct

from tokimori.errors import TokimoriError
from tokimori.model.audit import KIND, Entry, decode_entry, encode_entry, name_of, shown
from tokimori.model.document import Document, check_name, new_version
from tokimori.model.ids import RandomBytes
from tokimori.ports.documents import Documents
from tokimori.service.asking import MOST_LISTED, checked
from tokimori.service.store_time import Now

log = logging.getLogger(__name__)


class Recorded(Struct, frozen=True, kw_only=True):
    """An entry, and its id in the log."""

    id: str
    entry: Entry


class Audit:
    """Who has changed what. Every method but `record` may raise `StoreError`."""

    def __init__(self, store: Documents, now: Now, random: RandomBytes, author: str | None) -> None:
        self._store = store
        self._now = now
        self._random = random
        self._author = author

    async def list(self, after: str | None = None, limit: int = 100) -> Sequence[Recorded]:
        """Entries, newest first; `after`: those older than the entry of this id."""
        if after is not None:
            check_name("after", after)
        found = await self._store.list_documents(KIND, after=after or "", limit=checked("limit", limit, MOST_LISTED))
        return [Recorded(id=each.name, entry=decode_entry(each.text)) for each in found]


async def record(audit: Audit, what: str, of: str, before: object, after: object) -> None:
    """Write that something was changed. It is done by now, so a store that can't keep this is told of in the log."""
    try:
        at = await audit._now()
        entry = Entry(at=at, who=audit._author, what=what, of=of, before=shown(before), after=shown(after))
        name, version = name_of(at, audit._random), new_version(audit._random)
        await audit._store.put_document(Document(kind=KIND, name=name, text=encode_entry(entry), version=version), None)
    except TokimoriError as fault:
        log.warning("the audit log lacks that %r did %s to %s: %s", audit._author, what, of, fault)
