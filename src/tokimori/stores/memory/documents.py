"""Documents, in memory."""

from itertools import islice

from tokimori.model.document import Document
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.errors import document_changed, existing, no_document


def put_document(tables: Tables, document: Document, replaces: int | None) -> None:
    key = document.kind, document.name
    known = tables.documents.get(key)
    if known == document:
        return
    if (None if known is None else known.version) != replaces:
        raise document_changed(*key)
    tables.documents[key] = document


def get_document(tables: Tables, kind: str, name: str) -> Document:
    return existing(tables.documents.get((kind, name)), no_document(kind, name))


def list_documents(tables: Tables, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
    names = sorted(name for of, name in tables.documents if of == kind and name.startswith(prefix) and name > after)
    return [tables.documents[kind, name] for name in islice(names, limit)]


def delete_document(tables: Tables, kind: str, name: str, version: int) -> None:
    known = tables.documents.get((kind, name))
    if known is not None and known.version != version:
        raise document_changed(kind, name)
    tables.documents.pop((kind, name), None)
