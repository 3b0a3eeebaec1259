"""What may be kept as a document."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.model.document import LARGEST_TEXT, LONGEST_NAME, Document, check_document, new_version


def a_document(name: str = "de", text: str = "{}", kind: str = "rule") -> Document:
    """A document."""
    return Document(kind=kind, name=name, text=text, version=1)


@pytest.mark.parametrize(
    "document",
    [
        a_document("a" * LONGEST_NAME),
        a_document(" /:%{}\n😀"),
        a_document(text=""),
        a_document(text="ä" * (LARGEST_TEXT // 2)),
    ],
    ids=["long", "signs", "empty", "large"],
)
def test_what_every_store_holds_is_allowed(document: Document) -> None:
    """A name of 255 characters, whatever they are, and a text of 256 KiB."""
    check_document(document)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (a_document(""), "rule"),
        (a_document("a" * (LONGEST_NAME + 1)), "rule"),
        (a_document("a\0"), "rule"),
        (a_document("\ud800"), "rule"),
        (a_document(text="\0"), "text"),
        (a_document(text="\udfff"), "text"),
        (a_document(text="ä" * (LARGEST_TEXT // 2) + "a"), "rule"),
        (a_document(kind="a rule"), "kind"),
        (a_document(kind=""), "kind"),
    ],
    ids=["no name", "long", "NUL", "half", "text with NUL", "text with half", "large", "two words", "no kind"],
)
def test_what_a_store_may_not_hold_is_refused(document: Document, field: str) -> None:
    """The error says what may stand there; the size counts bytes, not characters."""
    with pytest.raises(InvalidInput) as caught:
        check_document(document)
    assert caught.value.field == field
    assert caught.value.allowed


def test_a_new_document_has_a_version_of_its_own() -> None:
    """It is all of the random bits, and leaves room for more changes than there will be."""
    assert new_version(lambda count: b"\xff" * count) == 2**48 - 1
    assert new_version(bytes) == 0
