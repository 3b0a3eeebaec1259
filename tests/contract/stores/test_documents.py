"""Documents: kept as they are, by kind and name, and changed only from the version that the caller has seen."""

import asyncio
from pathlib import Path

import pytest

from tests.contract.stores.conftest import STORES, forget
from tokimori.errors import Conflict, NotFound
from tokimori.model.document import LARGEST_TEXT, LONGEST_NAME, Document
from tokimori.ports.copying import Kind
from tokimori.ports.store import Store
from tokimori.service.copying import DOCUMENTS

LARGE = 64 * 1024
EDITORS, EDITS = 6, 10
AWKWARD = (
    " ", " two  blanks ", "%", "'\";--", "(", "*", "*~", "A", "[-", "\\", "_", "a", "a ", "a b", "a/b:c|d,e?f#g", "aa",
    "ä", "a\u0308", "ß", "ss", "calendar de", "{tokimori}:jobs", "$1", "null", "\n", "\x7f", "\xff", "\ud7ff", "\ue000",
    "\uffff", "😀", "\U0010ffff",
)  # fmt: skip
"""Names with what is a sign somewhere, or the same as another one somewhere."""


def a_document(name: str = "de", text: str = "{}", version: int = 1, kind: str = "calendar") -> Document:
    """A document, which nobody has kept yet."""
    return Document(kind=kind, name=name, text=text, version=version)


async def names(store: Store, kind: str = "calendar", prefix: str = "", limit: int = 100) -> list[str]:
    """Of the documents that are listed, in pages of that size, up to the page that says that it is the last one."""
    found: list[str] = []
    page = await store.list_documents(kind, prefix=prefix, limit=limit)
    while page:
        found += [document.name for document in page]
        assert len(page) <= limit
        if len(page) < limit:
            break
        page = await store.list_documents(kind, prefix=prefix, after=found[-1], limit=limit)
    return found


@pytest.mark.parametrize(
    "text",
    ["", "{}", "Feiertage „de“ \\ ' \" % ? $1 :x \r\n\t", "\x01\x1f\x7f\x85\u2028😀\U0010ffff", "null", "5"],
    ids=ascii,
)
async def test_a_document_is_read_as_it_was_put(store: Store, text: str) -> None:
    """Character by character, with a version that no double can hold, and in place of the one that it replaces."""
    first, second = a_document(version=2**62 + 1), a_document(text=text, version=2**62 + 2)
    await store.put_document(first, None)
    assert await store.get_document("calendar", "de") == first
    await store.put_document(second, first.version)
    assert await store.get_document("calendar", "de") == second
    assert await store.list_documents("calendar") == [second]


@pytest.mark.parametrize("size", [LARGE, LARGEST_TEXT])
async def test_a_text_may_be_large(store: Store, size: int) -> None:
    """Of 64 KiB, and of the most that is allowed, made of what statements escape and of characters of four bytes."""
    for n, character in enumerate(("'", '"', "\\", "\n", "😀")):
        document = a_document(f"large {n}", character * (size // len(character.encode())))
        await store.put_document(document, None)
        assert await store.get_document("calendar", document.name) == document


async def test_a_page_of_large_texts_is_copied(store: Store) -> None:
    """As many of the largest as a copy takes at a time, of nothing but what statements escape, are written at once."""
    page = [a_document(f"large {n}", "'\\" * (LARGEST_TEXT // 2)) for n in range(DOCUMENTS)]
    await store.import_rows(Kind.DOCUMENTS, page)
    assert await store.export_rows(Kind.DOCUMENTS, None, DOCUMENTS) == page


async def test_a_document_is_replaced_only_where_it_was_seen(store: Store) -> None:
    """Neither what is not there, nor another version, nor what is there and was not seen."""
    with pytest.raises(Conflict, match="the calendar 'de' was changed meanwhile"):
        await store.put_document(a_document(), 1)
    assert await store.list_documents("calendar") == []
    kept = a_document(version=5)
    await store.put_document(kept, None)
    for replaces in (None, 4, 6):
        with pytest.raises(Conflict):
            await store.put_document(a_document(text="other", version=6), replaces)
        with pytest.raises(Conflict):
            await store.put_document(a_document(text="other", version=5), replaces)
    assert await store.get_document("calendar", "de") == kept


async def test_a_lost_reply_is_harmless(store: Store) -> None:
    """Who puts or deletes a document again finds it as the first call left it; not so who comes later."""
    first, second = a_document(version=1), a_document(text="2", version=2)
    for _ in range(2):
        await store.put_document(first, None)
    for _ in range(2):
        await store.put_document(second, 1)
    with pytest.raises(Conflict):
        await store.put_document(first, None)
    for _ in range(2):
        await store.delete_document("calendar", "de", 2)
    assert await store.list_documents("calendar") == []


async def test_a_document_is_deleted_only_where_it_was_seen(store: Store) -> None:
    """Another version stays; one that is gone is no error; its neighbours stay."""
    for each in (a_document(version=3), a_document("den"), a_document(kind="rule")):
        await store.put_document(each, None)
    for version in (2, 4):
        with pytest.raises(Conflict, match="the calendar 'de' was changed meanwhile"):
            await store.delete_document("calendar", "de", version)
    await store.delete_document("calendar", "de", 3)
    with pytest.raises(NotFound, match="there is no calendar 'de'") as caught:
        await store.get_document("calendar", "de")
    assert (caught.value.field, caught.value.value) == ("calendar", "de")
    assert await names(store) == ["den"]
    assert await names(store, "rule") == ["de"]


async def test_names_may_be_anything(store: Store) -> None:
    """Each name is another one, whatever is a sign to a database, and they are listed in the order of their bytes."""
    longest = ["😀" * LONGEST_NAME, "\U0010ffff" * LONGEST_NAME]
    known = sorted([*AWKWARD, *longest], key=str.encode)
    for name in reversed(known):
        await store.put_document(a_document(name, text=f"of {name}"), None)
    for limit in (1, 4, 100):
        assert await names(store, limit=limit) == known
    for name in known:
        assert (await store.get_document("calendar", name)).text == f"of {name}"
        assert await names(store, prefix=name, limit=2) == [each for each in known if each.startswith(name)]
    for name in known:
        await store.delete_document("calendar", name, 1)
    assert await names(store) == []


async def test_kinds_are_apart(store: Store) -> None:
    """A name may be one of each kind; kinds that begin alike, or differ in case, are different ones."""
    kinds = ("a", "a-b", "a.b", "a_b", "A", "ab")
    for kind in kinds:
        for name in ("a", "b-c", "b"):
            await store.put_document(a_document(name, text=kind, kind=kind), None)
    for kind in kinds:
        assert [each.text for each in await store.list_documents(kind)] == [kind] * 3
        assert await names(store, kind, "b", 1) == ["b", "b-c"]
    assert await names(store, "a-") == []


async def test_pages_begin_behind_the_last_one(store: Store) -> None:
    """Whether the name that a page begins behind is there or not, and wherever it stands beside the prefix."""
    for name in ("a", "b", "b1", "b2", "b3", "c"):
        await store.put_document(a_document(name), None)
    found = {
        after: [each.name for each in await store.list_documents("calendar", prefix="b", after=after, limit=2)]
        for after in ("", "a", "b", "b10", "b2", "b3", "bz", "c")
    }
    assert found == {
        "": ["b", "b1"], "a": ["b", "b1"], "b": ["b1", "b2"], "b10": ["b2", "b3"], "b2": ["b3"],
        "b3": [], "bz": [], "c": [],
    }  # fmt: skip


@pytest.fixture(params=STORES)
async def both(request: pytest.FixtureRequest, tmp_path: Path):  # type: ignore[no-untyped-def]
    """The same store opened twice, as two nodes have it; memory is one."""
    name = request.param
    opened = [STORES[name](tmp_path) for _ in range(1 if name == "memory" else 2)]
    for store in opened:
        await store.open()
    await opened[0].migrate()
    yield [opened[0], opened[-1]]
    for store in opened:
        await store.close()
    forget(name, tmp_path)


async def _edit(store: Store, mark: str) -> int:
    """Add a line to the document, from whatever version it has; how often another one was faster."""
    refused = 0
    while True:
        known = await store.get_document("calendar", "de")
        await asyncio.sleep(0)
        changed = a_document(text=f"{known.text}{mark}\n", version=known.version + 1)
        try:
            await store.put_document(changed, known.version)
            return refused
        except Conflict:
            refused += 1


async def test_of_many_editors_none_loses_anything(both: list[Store]) -> None:
    """Editors on two nodes write at the same time: every line is there once, and some had to read again."""
    await both[0].put_document(a_document(text="", version=1), None)

    async def edit_often(editor: int) -> int:
        return sum([await _edit(both[editor % 2], f"{editor} {n}") for n in range(EDITS)])

    refused = await asyncio.gather(*(edit_often(editor) for editor in range(EDITORS)))
    kept = await both[1].get_document("calendar", "de")
    assert sorted(kept.text.split("\n")[:-1]) == sorted(f"{e} {n}" for e in range(EDITORS) for n in range(EDITS))
    assert kept.version == 1 + EDITORS * EDITS
    assert sum(refused) > 0


async def test_of_many_who_add_a_name_one_does(both: list[Store]) -> None:
    """The others are told, and so are all but one of those who replace, or delete, one version at the same time."""
    for round_ in range(EDITS):
        name = f"n{round_}"
        added = await _one_of(
            *(both[n % 2].put_document(a_document(name, f"{n}", 9 + n), None) for n in range(EDITORS))
        )
        kept = await both[0].get_document("calendar", name)
        assert kept == a_document(name, f"{added}", 9 + added)
        changed = await _one_of(
            *(
                both[n % 2].put_document(a_document(name, f"then {n}", kept.version + 1), kept.version)
                for n in range(EDITORS)
            )
        )
        assert (await both[1].get_document("calendar", name)).text == f"then {changed}"


async def test_who_deletes_and_who_edits_do_not_both_succeed(both: list[Store]) -> None:
    """One of them is told that the document was changed, and the store has what the other one did."""
    for round_ in range(EDITS):
        name = f"n{round_}"
        await both[0].put_document(a_document(name), None)
        first = await _one_of(
            both[0].put_document(a_document(name, "edited", 2), 1), both[1].delete_document("calendar", name, 1)
        )
        assert await names(both[0], prefix=name) == ([name] if first == 0 else [])
        if first == 0:
            await both[0].delete_document("calendar", name, 2)


async def _one_of(*calls) -> int:  # type: ignore[no-untyped-def]
    """The place of the only one of the calls that was not refused."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(answer is None or isinstance(answer, Conflict) for answer in answers)
    (place,) = (place for place, answer in enumerate(answers) if answer is None)
    return place
