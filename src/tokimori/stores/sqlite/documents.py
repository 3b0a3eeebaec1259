"""Documents: statements on their table."""

import sqlite3

from tokimori.model.document import Document
from tokimori.stores.rows import DOCUMENT, document_of, document_row, marks
from tokimori.stores.rules.errors import document_changed

_FIND = f"SELECT {DOCUMENT} FROM tokimori_documents WHERE kind = ? AND name = ?"
_INSERT = f"INSERT INTO tokimori_documents ({DOCUMENT}) VALUES ({marks(DOCUMENT)}) ON CONFLICT DO NOTHING"
_REPLACE = "UPDATE tokimori_documents SET text = ?, version = ? WHERE kind = ? AND name = ? AND version = ?"


def put_document(db: sqlite3.Connection, document: Document, replaces: int | None) -> None:
    kind, name, text, version = document_row(document)
    if replaces is None:
        written = db.execute(_INSERT, (kind, name, text, version))
    else:
        written = db.execute(_REPLACE, (text, version, kind, name, replaces))
    if not written.rowcount and _find(db, document.kind, document.name) != document:
        raise document_changed(document.kind, document.name)


def _find(db: sqlite3.Connection, kind: str, name: str) -> Document | None:
    row = db.execute(_FIND, (kind, name)).fetchone()
    return None if row is None else document_of(row)


def delete_document(db: sqlite3.Connection, kind: str, name: str, version: int) -> None:
    db.execute("DELETE FROM tokimori_documents WHERE kind = ? AND name = ? AND version = ?", (kind, name, version))
    if _find(db, kind, name) is not None:
        raise document_changed(kind, name)
