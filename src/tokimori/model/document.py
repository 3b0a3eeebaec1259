"""Documents: texts that the store keeps for a service, by kind and name, and never looks into."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, json

from tokimori.errors import InvalidInput
from tokimori.model.ids import RandomBytes
from tokimori.model.words import check_text, check_word

LONGEST_NAME = 255
"""Characters."""
LARGEST_TEXT = 2**18
"""Bytes in UTF-8. A copy reads several at a time, and a database takes one statement of a few MiB."""
_T = TypeVar("_T")


def texts_of(kind: type[_T]) -> tuple[Callable[[_T], str], Callable[[str], _T]]:
    """Return the functions that write values of this kind as texts for stores, and read them: that raises `ValueError`.

    Fields with their defaults are left out.
    """
    decoder = json.Decoder(kind)
    return lambda value: json.encode(value).decode(), decoder.decode


class Document(Struct, frozen=True, kw_only=True):
    """A text of one kind under a name.

    `version` is random in a new document, and grows by 1 with every change. So a version means the same text for ever,
    even if the document was deleted and made anew. It is below 2^63.
    """

    kind: str
    name: str
    text: str
    version: int


def new_version(random: RandomBytes) -> int:
    """Return the version of a new document: 48 random bits."""
    return int.from_bytes(random(6))


def check_document(document: Document) -> None:
    """Check that every store can keep it. Raises `InvalidInput`."""
    check_word("kind", document.kind)
    check_name(document.kind, document.name)
    check_text("text", document.text)
    size = len(document.text.encode())
    if size > LARGEST_TEXT:
        raise InvalidInput(
            f"{document.kind}: {document.name!r} is too large, {size} bytes",
            field=document.kind,
            value=document.name,
            allowed=f"at most {LARGEST_TEXT} bytes",
        )


def check_name(kind: str, name: str) -> None:
    """Check the name of a document. Raises `InvalidInput`; the field is the kind."""
    check_text(kind, name)
    if not 1 <= len(name) <= LONGEST_NAME:
        allowed = f"1 to {LONGEST_NAME} characters"
        raise InvalidInput(f"{kind}: {name!r} is too long, or empty", field=kind, value=name, allowed=allowed)
