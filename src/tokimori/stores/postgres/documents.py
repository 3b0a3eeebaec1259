"""Documents: statements on their table. What one of them did not write, another one looks at: nobody waits between."""

from tokimori.model.document import Document
from tokimori.stores.postgres.connections import Connections
from tokimori.stores.rows import DOCUMENT, document_of, document_row
from tokimori.stores.rules.errors import document_changed

_INSERT = f"""
INSERT INTO tokimori_documents ({DOCUMENT}) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING version"""
_REPLACE = """
UPDATE tokimori_documents SET text = $3, version = $4 WHERE kind = $1 AND name = $2 AND version = $5 RETURNING version
"""
_DELETE = "DELETE FROM tokimori_documents WHERE kind = $1 AND name = $2 AND version = $3 RETURNING version"


async def put_document(db: Connections, document: Document, replaces: int | None) -> None:
    row = document_row(document)
    written = await (db.row(_INSERT, *row) if replaces is None else db.row(_REPLACE, *row, replaces))
    if written is None and await _find(db, document.kind, document.name) != document:
        raise document_changed(document.kind, document.name)


async def _find(db: Connections, kind: str, name: str) -> Document | None:
    row = await db.row(f"SELECT {DOCUMENT} FROM tokimori_documents WHERE kind = $1 AND name = $2", kind, name)
    return None if row is None else document_of(row)


async def delete_document(db: Connections, kind: str, name: str, version: int) -> None:
    deleted = await db.row(_DELETE, kind, name, version)
    if deleted is None and await _find(db, kind, name) is not None:
        raise document_changed(kind, name)
