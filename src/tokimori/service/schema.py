"""Opening a store to work with it."""

from tokimori.errors import SchemaMismatch
from tokimori.ports.store import Schema


async def open_prepared(store: Schema) -> None:
    """Open the store, with its tables. Raises `StoreError`; the store is closed then."""
    await store.open()
    try:
        await prepare_schema(store)
    except BaseException:
        await store.close()
        raise


async def prepare_schema(store: Schema) -> None:
    """Create the tables of an empty store. Raises `SchemaMismatch` where they are older, or too new."""
    status = await store.schema()
    if status.version is None:
        await store.migrate()
    elif status.too_new:
        raise SchemaMismatch(
            f"the store's schema is {status.version}, which nodes since {status.oldest} can use, and this version of "
            f"Tokimori knows {status.newest}: install a newer one",
            field="schema",
            value=status.version,
            allowed=f"at most {status.newest}",
        )
    elif status.pending:
        raise SchemaMismatch(
            f"the store's schema is {status.version}, this version of Tokimori works with {status.newest}: "
            "run `tokimori db migrate`",
            field="schema",
            value=status.version,
            allowed=str(status.newest),
        )
