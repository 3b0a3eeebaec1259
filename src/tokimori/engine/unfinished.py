"""Marks of stores on which no node works: a store with a part of a copy, and a store that another has replaced."""

from contextlib import suppress

from tokimori.errors import NotFound, StoreError
from tokimori.model.document import Document
from tokimori.ports.documents import Documents

UNFINISHED = Document(kind="copy", name="unfinished", text="", version=1)
"""Document that is in a store from before the first row of a copy until all are there."""


async def refuse_unfinished(store: Documents) -> None:
    """Raise `StoreError` if the store holds a part of a copy, or is retired: its jobs would run here and there."""
    with suppress(NotFound):
        raise unfinished((await store.get_document(UNFINISHED.kind, UNFINISHED.name)).text)


def unfinished(retired: str = "") -> StoreError:
    """Return the error for a program that works on, or writes to, such a store. `retired`: since when, and by whom."""
    if retired:
        message = f"the store was retired {retired}: set TOKIMORI_STORE to the one that took its place"
        return StoreError(f"{message}, or run `tokimori db retire --undo`", field="store")
    return StoreError(
        "the store holds a part of a copy, which is under way or was interrupted: run the same `tokimori db copy` "
        "again, which goes on from there, or empty the store",
        field="store",
    )
