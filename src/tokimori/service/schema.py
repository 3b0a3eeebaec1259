"""Opening of a store, with checks of its schema."""

import asyncio

from tokimori.engine.unfinished import UNFINISHED, refuse_unfinished, unfinished
from tokimori.errors import SchemaMismatch
from tokimori.ports.store import Schema, Store


class StoreOnDemand:
    """A store that is opened at its first use. While it does not answer, everything else works."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._opening = asyncio.Lock()
        self._is_open = False

    async def opened(self) -> Store:
        """Return the open store. Raises `StoreError`; the next call tries again."""
        async with self._opening:
            if not self._is_open:
                await open_whole(self.store)
                self._is_open = True
        return self.store

    async def close(self) -> None:
        """Close the store, if it is open."""
        if self._is_open:
            await self.store.close()


class StoreOpened(StoreOnDemand):
    """A store that its owner opens and closes."""

    async def opened(self) -> Store:
        """See `StoreOnDemand.opened`."""
        return self.store


class DoorOnDemand(StoreOnDemand):
    """The same store for callers at a door."""

    def __init__(self, semaphores: StoreOnDemand) -> None:
        super().__init__(semaphores.store)
        self._semaphores = semaphores

    async def opened(self) -> Store:
        """See `StoreOnDemand.opened`."""
        async with self._opening:
            if not self._is_open:
                self.store = await (await self._semaphores.opened()).for_doors()
                self._is_open = True
        return self.store

    async def close(self) -> None:
        """Do nothing: it is closed with that store."""


async def open_prepared(store: Schema) -> None:
    """Open the store and prepare its tables. If that raises `StoreError`, the store is closed again."""
    await store.open()
    try:
        await prepare_schema(store)
    except BaseException:
        await store.close()
        raise


async def open_whole(store: Store) -> None:
    """Open a store as `open_prepared` does, for a writer that is no node. Raises `StoreError` for an unfinished copy,
    also later on if a copy into the store begins.
    """
    await open_prepared(store)
    try:
        await refuse_unfinished(store)
        store.shut_while(UNFINISHED, unfinished)
    except BaseException:
        await store.close()
        raise


async def prepare_schema(store: Schema) -> None:
    """Create the tables of an empty store. Raises `SchemaMismatch` if its tables are too old or too new."""
    status = await store.schema()
    if status.too_new:
        raise SchemaMismatch(
            f"the store's schema is {status.version}, which nodes since {status.oldest} can use, and this version of "
            f"Tokimori knows {status.newest}: install a newer version",
            field="schema",
            value=status.version,
            allowed=f"at most {status.newest}",
        )
    if status.too_old:
        raise SchemaMismatch(
            f"the store's schema is {status.version}, this version of Tokimori works with {status.newest}: "
            "run `tokimori db migrate`",
            field="schema",
            value=status.version,
            allowed=str(status.newest),
        )
    if status.pending:
        await store.migrate()
