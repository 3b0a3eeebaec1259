"""Changes under a document: they take effect while the store has that version of it, and never afterwards."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, a_job, a_node, a_request
from tests.contract.stores.test_documents import a_document
from tokimori.engine.unfinished import UNFINISHED, unfinished
from tokimori.errors import Overtaken, StoreError
from tokimori.model.ids import JobId, NodeId, PermitId
from tokimori.model.lanes import Pause
from tokimori.ports.semaphores import UnitRequest
from tokimori.ports.store import Store

GUARD = a_document("prod", "first", 2**62, kind="set")
NEXT = replace(GUARD, text="second", version=GUARD.version + 1)


async def edited(store: Store) -> None:
    old = await store.get_job(JobId("old"))
    await store.replace_job(old, replace(old, version=old.version + 1))


CHANGES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "add_jobs": lambda store: store.add_jobs([a_job("new")]),
    "replace_job": edited,
    "delete_job": lambda store: store.delete_job(JobId("old"), NOW),
    "put_document": lambda store: store.put_document(a_document("new"), None),
    "delete_document": lambda store: store.delete_document("calendar", "old", 1),
    "add_pause": lambda store: store.add_pause(Pause(queue="new", since=NOW)),
    "delete_pause": lambda store: store.delete_pause("old"),
    "put_semaphore": lambda store: store.put_semaphore("new", 2, NOW),
    "delete_semaphore": lambda store: store.delete_semaphore("old"),
}
"""All that applying a set does."""


async def _filled(store: Store) -> None:
    await store.add_jobs([a_job("old")])
    await store.put_document(a_document("old"), None)
    await store.add_pause(Pause(queue="old", since=NOW))
    await store.put_semaphore("old", 2, NOW)
    await store.put_document(GUARD, None)


async def _all_in(store: Store) -> object:
    return (
        await store.list_jobs(),
        await store.list_documents("calendar"),
        await store.list_pauses(),
        await store.list_semaphores(),
    )


@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_changes_under_a_document_that_was_changed_or_deleted(store: Store, change: str) -> None:
    """Under the version that the store has it does."""
    await _filled(store)
    before, guarded = await _all_in(store), store.under(GUARD)
    await store.put_document(NEXT, GUARD.version)
    with pytest.raises(Overtaken):
        await CHANGES[change](guarded)
    assert await _all_in(store) == before
    await CHANGES[change](store.under(NEXT))
    after = await _all_in(store)
    assert after != before
    await store.delete_document(NEXT.kind, NEXT.name, NEXT.version)
    with pytest.raises(Overtaken):
        await store.under(NEXT).add_jobs([a_job("late")])
    assert await _all_in(store) == after


async def test_whoever_has_changed_the_document_sees_all_that_happened_under_it(store: Store) -> None:
    """Of many changes at the same time each has taken effect by then, or never does."""
    await store.put_document(GUARD, None)
    guarded = store.under(GUARD)

    async def add(actor: int) -> int:
        for number in range(500):
            try:
                await guarded.add_jobs([a_job(f"job-{actor}-{number}")])
            except Overtaken:
                return number
        return 500

    adding = [asyncio.create_task(add(actor)) for actor in range(6)]
    await asyncio.sleep(0.02)
    await store.put_document(NEXT, GUARD.version)
    seen = [job.id for job in await store.list_jobs(limit=3000)]
    added = await asyncio.gather(*adding)
    assert [job.id for job in await store.list_jobs(limit=3000)] == seen
    assert sum(added) == len(seen) < 3000


async def _asked(store: Store) -> None:
    await store.add_run(a_request(await store.get_job(JobId("old"))), NOW)


ID = "01a1fe76-c901-7d5c-b9f7-4e869d9c8e53"
WRITES: dict[str, Callable[[Store], Awaitable[object]]] = {
    **CHANGES,
    "add_run": _asked,
    "register": lambda store: store.register(a_node(id=NodeId(ID))),
    "acquire": lambda store: store.acquire(UnitRequest(id=PermitId(ID), node=NodeId(ID), semaphore="s", rank=0), NOW),
}


@pytest.mark.parametrize("change", WRITES)
async def test_nothing_changes_while_the_store_is_shut(store: Store, change: str) -> None:
    """Whoever had it open before is refused, too, after a moment; when it is open again he goes on."""
    await _filled(store)
    plain, before = store.under(GUARD), await _all_in(store)
    store.shut_while(UNFINISHED, unfinished)
    await store.list_jobs()
    await plain.put_document(UNFINISHED, None)
    await asyncio.sleep(store.looks_every)
    with pytest.raises(StoreError, match="a part of a copy"):
        await WRITES[change](store)
    assert await _all_in(plain) == before
    await plain.delete_document(UNFINISHED.kind, UNFINISHED.name, UNFINISHED.version)
    await WRITES[change](store)
