"""Documents of one kind, read and written as values: what all kinds have in common."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Generic, Self, TypeVar

from msgspec import Struct

from tokimori.errors import AlreadyExists, Conflict, NotFound, Refused, StoreUnavailable, TokimoriError
from tokimori.model.document import Document, check_document, check_name, new_version
from tokimori.model.ids import RandomBytes
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.store_calls import retried

Value = TypeVar("Value")
PAGE = 16
"""How many documents the store is asked for at once: 4 MiB, if all of them are as large as they may be."""


class DocumentKind(Struct, Generic[Value], frozen=True):
    """A kind of document: its name in the store and in errors, and how its values become texts and back."""

    word: str
    encode: Callable[[Value], str]
    decode: Callable[[str], Value]


class Documents(Generic[Value]):
    """The documents of one kind. Every method may raise `StoreError`, and `InvalidInput` for an invalid name."""

    def __init__(self, store: DocumentStore, kind: DocumentKind[Value], random: RandomBytes) -> None:
        self._store = store
        self._kind = kind
        self._random = random

    async def add(self, name: str, value: Value) -> Document:
        """Add a document, and return it. Raises `AlreadyExists`, and `InvalidInput` if it is too large."""
        document = self._document(name, value, new_version(self._random))
        try:
            await self._put(document, None)
        except Conflict:
            word = self._kind.word
            message = f"{word}: there is a {name!r} already"
            raise AlreadyExists(message, field=word, value=name, allowed="a name not in use") from None
        return document

    async def get(self, name: str) -> Value:
        """Return the value of a document. Raises `NotFound`."""
        return self.value_of(await self.find(name))

    def at(self, store: DocumentStore) -> Self:
        """Return the documents of the same kind in another view of the store."""
        other = copy(self)
        other._store = store
        return other

    async def find(self, name: str) -> Document:
        """Return the document itself. Raises `NotFound`."""
        check_name(self._kind.word, name)
        return await self._store.get_document(self._kind.word, name)

    def value_of(self, document: Document) -> Value:
        """Return the value that the text of a document says. Raises `Refused` if this version can't read it."""
        try:
            return self._kind.decode(document.text)
        except (ValueError, TokimoriError) as fault:
            raise Refused(
                f"{document.kind}: {document.name!r} can't be read by this version of Tokimori ({fault}): use the one "
                "that wrote it",
                field=document.kind,
                value=document.name,
            ) from None

    async def list(self, prefix: str = "") -> Sequence[Value]:
        """Return the values of documents whose names begin with `prefix`, by name."""
        return [self.value_of(document) async for document in self.each(prefix)]

    async def page(self, after: str, limit: int) -> Sequence[Value]:
        """Return the values of the first documents by name whose names are greater than `after`."""
        found: list[Value] = []
        while len(found) < limit:
            most = min(PAGE, limit - len(found))
            page = await self._store.list_documents(self._kind.word, after=after, limit=most)
            found += [self.value_of(document) for document in page]
            if len(page) < most:
                break
            after = page[-1].name
        return found

    async def each(self, prefix: str = "") -> AsyncIterator[Document]:
        """Yield the documents whose names begin with `prefix`, by name."""
        after = ""
        while page := await self._store.list_documents(self._kind.word, prefix=prefix, after=after, limit=PAGE):
            for document in page:
                yield document
            if len(page) < PAGE:
                return
            after = page[-1].name

    async def change(self, name: str, change: Callable[[Value], Value]) -> Value:
        """Replace the value of a document by the result of `change`. If another caller changes it first, `change` is
        called again.

        Raises `NotFound`, what `change` raises, and `Conflict` while others keep changing it.
        """
        return await retried(lambda: self._change(name, change), Conflict)

    async def _change(self, name: str, change: Callable[[Value], Value]) -> Value:
        known = await retried(lambda: self.find(name), StoreUnavailable)
        value = change(self.value_of(known))
        changed = self._document(name, value, known.version + 1)
        if changed.text != known.text:
            await self._put(changed, known.version)
        return value

    async def replace(self, known: Document, value: Value) -> Document:
        """Put the value in place of this version of a document; the new one. Raises `Conflict` for another version."""
        document = self._document(known.name, value, known.version + 1)
        await self._put(document, known.version)
        return document

    async def delete(self, document: Document) -> None:
        """Delete a document; it is no error if it is gone. Raises `Conflict` if it was changed meanwhile."""
        asked = document.kind, document.name, document.version
        await retried(lambda: self._store.delete_document(*asked), StoreUnavailable)

    async def put(self, name: str, value: Value) -> None:
        """Store the value under that name, and replace any other."""
        await retried(lambda: self._add_or_change(name, value), NotFound)

    async def _add_or_change(self, name: str, value: Value) -> None:
        try:
            await self.add(name, value)
        except AlreadyExists:
            await self.change(name, lambda _: value)

    async def discard(self, name: str) -> None:
        """Delete the document of that name, whatever its value; it is no error if there is none."""
        with suppress(NotFound):
            await self.remove(name)

    async def remove(self, name: str) -> None:
        """Delete the document of that name, whatever its value. Raises `NotFound`."""

        async def delete() -> None:
            await self.delete(await self.find(name))

        await retried(delete, Conflict)

    async def delete_all(self, prefix: str) -> None:
        """Delete the documents whose names begin with `prefix`. Raises `Conflict` if one was changed meanwhile."""
        async for document in self.each(prefix):
            await self.delete(document)

    def _document(self, name: str, value: Value, version: int) -> Document:
        document = Document(kind=self._kind.word, name=name, text=self._kind.encode(value), version=version)
        check_document(document)
        return document

    async def _put(self, document: Document, replaces: int | None) -> None:
        await retried(lambda: self._store.put_document(document, replaces), StoreUnavailable)
