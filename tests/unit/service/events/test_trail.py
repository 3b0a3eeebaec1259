"""The audit log is read forwards, though it is listed backwards."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.service.world import SetClock
from tokimori.clock import SECOND, Moment
from tokimori.model.audit import KIND, AuditEntry, Changed, encode_entry, name_of
from tokimori.model.document import Document
from tokimori.ports.ends import EndPlace
from tokimori.service.events.trail import MOST, Trail
from tokimori.stores.memory.store import MemoryStore

BEGIN = Moment(1_764_000_000_000_000)


async def a_log(moments: list[int]) -> MemoryStore:
    """A store with an entry at each of these microseconds behind the beginning."""
    store, numbers = MemoryStore(SetClock()), itertools.count(1)
    for moment in moments:
        at = Moment(BEGIN + moment)
        entry = AuditEntry(at=at, who=None, what="add", of=f"job j{moment}")
        name = name_of(at, lambda size: next(numbers).to_bytes(size))
        await store.put_document(Document(kind=KIND, name=name, text=encode_entry(entry), version=1), None)
    return store


async def read_all(trail: Trail, place: EndPlace, limit: int = 500) -> list[Changed]:
    """Page by page."""
    found, rest = list[Changed](), place
    for _ in range(1000):
        page = await trail.ended_since(rest, limit)
        found += page.found
        if page.rest is None:
            return found
        assert page.rest > rest
        rest = page.rest
    raise AssertionError("it has no end")


MOMENTS = st.lists(st.one_of(st.integers(0, 10), st.integers(0, 10**6), st.integers(0, 86_400 * SECOND)), max_size=200)


@settings(max_examples=examples(60), deadline=None)
@given(moments=MOMENTS, begin=st.integers(0, 10**6), limit=st.sampled_from([1, 3, 500]))
async def test_each_entry_behind_a_moment_is_read_once(moments: list[int], begin: int, limit: int) -> None:
    """In the order of their moments, however they lie, and whatever is read at once."""
    trail = Trail(await a_log(moments))
    found = await read_all(trail, EndPlace(Moment(BEGIN + begin)), limit)
    assert [each.written - BEGIN for each in found] == sorted(each for each in moments if each >= begin)
    assert len({each.id for each in found}) == len(found)


async def test_many_entries_of_one_moment_are_read() -> None:
    """More than are read at once."""
    trail = Trail(await a_log([5] * (2 * MOST + 1) + [9] * MOST))
    assert len(await read_all(trail, EndPlace(BEGIN))) == 3 * MOST + 1


async def test_entries_that_tell_of_much_are_read_in_parts() -> None:
    """No page has more events than it may have, however many things an entry tells of; none is left out."""
    store = MemoryStore(SetClock())
    for number in range(9):
        at = Moment(BEGIN + number)
        names = [f"{number}-{name}" for name in range(4)]
        entry = AuditEntry(at=at, who=None, what="apply", of="set s", event="set.applied", after={"added": names})
        name = name_of(at, bytes)
        await store.put_document(Document(kind=KIND, name=name, text=encode_entry(entry), version=1), None)
    for limit in (10, 50):
        trail, sizes = Trail(store), list[int]()
        rest: EndPlace | None = EndPlace(BEGIN)
        while rest is not None:
            page = await trail.ended_since(rest, limit)
            rest = page.rest
            sizes.append(len(page.found))
        assert max(sizes) <= limit and sum(sizes) == 36


async def test_a_log_without_news_costs_one_read_of_a_few() -> None:
    """Who looks each second reads some entries, not all."""
    store = await a_log(list(range(300)))
    reads = list[int]()
    listed = store.list_documents

    async def counted(kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
        found = await listed(kind, prefix=prefix, after=after, limit=limit)
        reads.append(len(found))
        return found

    store.list_documents = counted  # type: ignore[method-assign]
    assert (await Trail(store).ended_since(EndPlace(Moment(BEGIN + 1000)), 500)).found == []
    assert sum(reads) <= 4


async def test_what_can_t_be_read_hides_nothing() -> None:
    """An entry of a newer version is passed by."""
    store = await a_log([1, 3])
    name = name_of(Moment(BEGIN + 2), bytes)
    await store.put_document(Document(kind=KIND, name=name, text='{"new": 1}', version=1), None)
    assert [each.name for each in await read_all(Trail(store), EndPlace(BEGIN))] == ["j1", "j3"]
