"""Unfinished copies: a store that holds a part of a copy says so, and no node works on it."""

from contextlib import suppress

from tokimori.errors import NotFound, StoreError
from tokimori.model.document import Document
from tokimori.ports.documents import Documents

UNFINISHED = Document(kind="copy", name="unfinished", text="", version=1)
"""Document that is in a store from before the first row of a copy until all are there."""


async def refuse_unfinished(store: Documents) -> None:
    """Raise `StoreError` if the store holds a part of a copy: its jobs would run here and there, or run twice."""
    with suppress(NotFound):
        await store.get_document(UNFINISHED.kind, UNFINISHED.name)
        raise unfinished()


def unfinished() -> StoreError:
    """Return the error for a program that works on, or writes to, a store with a part of a copy."""
    return StoreError(
        "the store holds a part of a copy, which is under way or was interrupted: run the same `tokimori db copy` "
        "again, which goes on from there, or empty the store",
        field="store",
    )
