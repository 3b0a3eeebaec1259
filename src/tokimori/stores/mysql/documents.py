"""Documents: statements on their table."""

from tokimori.model.document import Document
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import sql
from tokimori.stores.rows import DOCUMENT, document_row
from tokimori.stores.rules.errors import document_changed

_FIND = f"SELECT {DOCUMENT} FROM tokimori_documents WHERE kind = %s AND name = %s"
_INSERT = f"""
INSERT INTO tokimori_documents ({DOCUMENT}) VALUES %s ON DUPLICATE KEY UPDATE version = tokimori_documents.version"""
_REPLACE = "UPDATE tokimori_documents SET text = %s, version = %s WHERE kind = %s AND name = %s AND version = %s"
_DELETE = "DELETE FROM tokimori_documents WHERE kind = %s AND name = %s AND version = %s"


async def put_document(transaction: Transaction, document: Document, replaces: int | None) -> None:
    kind, name, text, version = row = document_row(document)
    statement = sql(_INSERT, row) if replaces is None else sql(_REPLACE, text, version, kind, name, replaces)
    _, found = await transaction.commit(statement, sql(_FIND, kind, name))
    if found.rows != [row]:
        raise document_changed(document.kind, document.name)


async def delete_document(transaction: Transaction, kind: str, name: str, version: int) -> None:
    _, found = await transaction.commit(sql(_DELETE, kind, name, version), sql(_FIND, kind, name))
    if found.rows:
        raise document_changed(kind, name)
