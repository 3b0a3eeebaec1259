"""Documents: calls of scripts. A version is text there, as it may be above 2^53."""

from tokimori.model.document import Document
from tokimori.stores.redis.connections import RedisConnections, document_key
from tokimori.stores.rules.errors import document_changed, existing, no_document


async def put_document(db: RedisConnections, document: Document, replaces: int | None) -> None:
    kept = await db.run(
        "put_document",
        key=document_key(document.kind, document.name),
        text=document.text,
        version=str(document.version),
        replaces=None if replaces is None else str(replaces),
    )
    if not kept:
        raise document_changed(document.kind, document.name)


async def get_document(db: RedisConnections, kind: str, name: str) -> Document:
    text, version = await db.do("HMGET", f"{db.address.prefix}document:{document_key(kind, name)}", "text", "version")
    return Document(kind=kind, name=name, text=text, version=int(existing(version, no_document(kind, name))))


async def list_documents(
    db: RedisConnections, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
) -> list[Document]:
    first = f"({document_key(kind, after)}" if after >= prefix else f"[{document_key(kind, prefix)}"
    return await _page(db, first, document_key(kind, prefix), limit)


async def all_documents(db: RedisConnections, after: tuple[str, str] | None, limit: int) -> list[Document]:
    """Return documents of every kind that are greater than `after`, by kind and name."""
    return await _page(db, "-" if after is None else f"({document_key(*after)}", "", limit)


async def _page(db: RedisConnections, first: str, begin: str, limit: int) -> list[Document]:
    found = []
    for key, text, version in await db.run("list_documents", **{"from": first}, begin=begin, limit=limit):
        kind, _, name = key.partition(" ")
        found.append(Document(kind=kind, name=name, text=text, version=int(version)))
    return found


async def delete_document(db: RedisConnections, kind: str, name: str, version: int) -> None:
    if not await db.run("delete_document", key=document_key(kind, name), version=str(version)):
        raise document_changed(kind, name)
