"""The audit log is kept as long as somebody has said."""

import os
from math import inf

from tests.unit.examples import NEW_YEAR
from tokimori.clock import DAY, Moment
from tokimori.engine.prune import AUDIT_BATCH, AUDIT_EVERY, AUDIT_PAUSE, AuditPruner
from tokimori.model.audit import KIND, AuditEntry, encode_entry, name_of
from tokimori.model.document import Document
from tokimori.model.ids import NodeId
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

NODE = NodeId("node")


async def a_log(*ages: float) -> MemoryStore:
    """A store with an entry for each of these ages in days."""
    store = MemoryStore(VirtualClock())
    for age in ages:
        at = Moment(NEW_YEAR - round(age * DAY))
        entry = AuditEntry(at=at, who="ada", what="add", of=f"{age}")
        document = Document(kind=KIND, name=name_of(at, os.urandom), text=encode_entry(entry), version=1)
        await store.put_document(document, None)
    return store


async def test_what_is_older_is_deleted_and_nothing_else() -> None:
    """To the moment; a node looks once an hour, not all at the same time."""
    store = await a_log(0, 6.99, 7.01, 400)
    pruner = AuditPruner(store, 0, lambda: 0.5, 7)
    assert pruner.next_at == AUDIT_EVERY / 2
    await pruner.step(NODE, NEW_YEAR, pruner.next_at - 1)
    assert len(await store.list_documents(KIND)) == 4
    await pruner.step(NODE, NEW_YEAR, at := pruner.next_at)
    left = [document.text for document in await store.list_documents(KIND)]
    assert ['"of":"0"' in left[0], '"of":"6.99"' in left[1], len(left)] == [True, True, 2]
    assert pruner.next_at == at + AUDIT_EVERY


async def test_a_step_deletes_few() -> None:
    """The beat behind it is not late; the rest follows soon."""
    store = await a_log(*range(10, 10 + AUDIT_BATCH + 3))
    pruner = AuditPruner(store, 0, lambda: 0, 7)
    await pruner.step(NODE, NEW_YEAR, 0)
    assert (len(await store.list_documents(KIND)), pruner.next_at) == (3, AUDIT_PAUSE)
    await pruner.step(NODE, NEW_YEAR, AUDIT_PAUSE)
    assert await store.list_documents(KIND) == []


async def test_a_log_may_be_kept_for_ever() -> None:
    """Where 0 days are said."""
    assert AuditPruner(await a_log(4000), 0, lambda: 0, 0).next_at == inf
