"""Documents of one kind as values."""

import os
from collections.abc import Callable

import pytest

from tests.unit.service.world import SetClock
from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.document import LARGEST_TEXT, Document
from tokimori.service.documents import PAGE, DocumentKind, Documents
from tokimori.service.store_calls import MOST_TRIES
from tokimori.stores.memory.store import MemoryStore

NUMBERS: DocumentKind[int] = DocumentKind("number", str, int)


class Fickle(MemoryStore):
    """A memory store whose first replies to puts and deletions are lost, or that others use between our steps."""

    def __init__(self) -> None:
        super().__init__(SetClock())
        self.lost = 0
        self.before_put: Callable[[], None] = lambda: None
        self.documents = self._tables.documents

    def _lose(self) -> None:
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("the reply is lost")

    async def put_document(self, document: Document, replaces: int | None) -> None:
        self.before_put()
        await super().put_document(document, replaces)
        self._lose()

    async def delete_document(self, kind: str, name: str, version: int) -> None:
        await super().delete_document(kind, name, version)
        self._lose()

    async def put_unseen(self, name: str, text: str) -> None:
        """Have somebody else change it."""
        known = await self.get_document("number", name)
        await super().put_document(
            Document(kind="number", name=name, text=text, version=known.version + 1), known.version
        )


@pytest.fixture
def store() -> Fickle:
    """An empty store."""
    return Fickle()


@pytest.fixture
def numbers(store: Fickle) -> Documents[int]:
    """Numbers in it."""
    return Documents(store, NUMBERS, os.urandom)


async def test_a_value_is_kept_under_its_name(numbers: Documents[int]) -> None:
    """It is read, changed and forgotten as a value; a name is taken once, and other kinds are not seen."""
    await numbers.add("a b", 5)
    with pytest.raises(AlreadyExists, match="number: there is a 'a b' already") as caught:
        await numbers.add("a b", 6)
    assert caught.value.field == "number"
    assert await numbers.get("a b") == 5
    assert await numbers.change("a b", lambda value: value + 1) == 6
    assert await numbers.list() == [6]
    await numbers.delete(await numbers.find("a b"))
    assert await numbers.list() == []


async def test_what_is_not_there_is_not_found(numbers: Documents[int]) -> None:
    """Neither read nor changed; what can't be a name is refused before the store is asked."""
    for ask in (numbers.get, numbers.find, lambda name: numbers.change(name, abs)):
        with pytest.raises(NotFound, match="there is no number 'a'"):
            await ask("a")
        with pytest.raises(InvalidInput):
            await ask("a\0")


async def test_what_is_too_large_is_refused(store: Fickle) -> None:
    """By an addition and by a change, which then changes nothing."""
    kind: DocumentKind[str] = DocumentKind("text", str, str)
    texts = Documents(store, kind, os.urandom)
    with pytest.raises(InvalidInput, match="too large"):
        await texts.add("a", "x" * (LARGEST_TEXT + 1))
    await texts.add("a", "x")
    with pytest.raises(InvalidInput, match="too large"):
        await texts.change("a", lambda text: text * (LARGEST_TEXT + 1))
    assert await texts.list() == ["x"]


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
async def test_all_are_listed(numbers: Documents[int], count: int) -> None:
    """However many pages there are, each once and by name, and those of a prefix by themselves."""
    for n in range(count):
        await numbers.add(f"n{n:03}", n)
    await numbers.add("m", -1)
    await numbers.add("o", -2)
    assert await numbers.list("n") == [*range(count)]
    assert await numbers.list() == [-1, *range(count), -2]


async def test_a_change_is_made_anew_where_somebody_was_faster(store: Fickle, numbers: Documents[int]) -> None:
    """It begins from what the other one wrote, so that neither is lost; who is never first is told so."""
    await numbers.add("a", 1)
    known = store.documents["number", "a"]
    seen: list[int] = []

    def add_ten(value: int) -> int:
        seen.append(value)
        return value + 10

    def once() -> None:
        store.before_put = lambda: None
        store.documents["number", "a"] = Document(kind="number", name="a", text="5", version=known.version + 1)

    store.before_put = once
    assert await numbers.change("a", add_ten) == 15
    assert (seen, await numbers.get("a")) == ([1, 5], 15)

    def always() -> None:
        newest = store.documents["number", "a"]
        store.documents["number", "a"] = Document(kind="number", name="a", text="7", version=newest.version + 1)

    store.before_put = always
    with pytest.raises(Conflict):
        await numbers.change("a", add_ten)


async def test_a_lost_reply_is_asked_for_again(store: Fickle, numbers: Documents[int]) -> None:
    """An addition, a change and a deletion whose first replies were lost are done once, and no error."""
    for lost in (1, 3):
        store.lost = lost
        await numbers.add("a", 1)
        version = (await numbers.find("a")).version
        store.lost = lost
        assert await numbers.change("a", lambda _: 2) == 2
        found = await numbers.find("a")
        assert (found.text, found.version) == ("2", version + 1)
        store.lost = lost
        await numbers.delete(found)
        assert await numbers.list() == []


async def test_a_change_to_the_same_is_none(numbers: Documents[int]) -> None:
    """The document keeps its version."""
    await numbers.add("a", 1)
    known = await numbers.find("a")
    assert await numbers.change("a", abs) == 1
    assert await numbers.find("a") == known


async def test_only_what_was_seen_is_deleted(store: Fickle, numbers: Documents[int]) -> None:
    """Not what somebody else made of it, and not a later one of the same name and value."""
    await numbers.add("a", 1)
    known = await numbers.find("a")
    await store.put_unseen("a", "2")
    with pytest.raises(Conflict):
        await numbers.delete(known)
    await numbers.delete(await numbers.find("a"))
    await numbers.add("a", 1)
    with pytest.raises(Conflict):
        await numbers.delete(known)
    assert await numbers.get("a") == 1


async def test_a_document_of_another_version_is_named(store: Fickle, numbers: Documents[int]) -> None:
    """A text that this version can't read is refused with its name, and what mends it; it stays as it is."""
    await numbers.add("new", 5)
    await store.put_unseen("new", "V")
    change = numbers.change("new", lambda value: value + 1)
    for call in (numbers.get("new"), numbers.list(), change):
        with pytest.raises(Refused, match=r"number: 'new' can't be read by this version .*: use the one that wrote it"):
            await call
    assert (await numbers.find("new")).text == "V"


async def test_a_store_that_is_away_is_asked_a_few_times(store: Fickle, numbers: Documents[int]) -> None:
    """Tries do not multiply: what fails each time is given up after one round of them."""
    await numbers.add("kept", 5)
    store.lost = 1000
    with pytest.raises(StoreUnavailable):
        await numbers.change("kept", lambda value: value + 1)
    assert 1000 - store.lost <= MOST_TRIES


async def test_what_is_deleted_while_it_is_put_is_put_all_the_same(
    store: Fickle, numbers: Documents[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes the document that was in the way of a new one: nobody is told that there is none."""
    await numbers.put("a", 1)
    found = store.get_document

    async def too_late(kind: str, name: str) -> Document:
        monkeypatch.undo()
        await numbers.discard(name)
        return await found(kind, name)

    monkeypatch.setattr(store, "get_document", too_late)
    await numbers.put("a", 2)
    assert await numbers.get("a") == 2
