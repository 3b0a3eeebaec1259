"""The client of asynchronous programs: the service of one store, with the locks of this program."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tokimori.client.opening import Stores, load_store, session_on, this_program
from tokimori.clock import Clock, SystemClock
from tokimori.locks.holdings import Wanted
from tokimori.locks.lock import Lock
from tokimori.locks.session import Program
from tokimori.model.ids import RandomBytes
from tokimori.ports.store import Store
from tokimori.service.schema import StoreOnDemand, open_prepared
from tokimori.service.service import Service


class AsyncClient(Service):
    """The service of an open store. The first lock makes this program a member of the cluster; `close` ends that, and
    closes the store of semaphores that was opened on demand.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: RandomBytes,
        *,
        program: Program,
        time_zone: str = "UTC",
        author: str | None = None,
        semaphore_store: StoreOnDemand | None = None,
    ) -> None:
        super().__init__(store, clock, random, time_zone=time_zone, author=author, semaphore_store=semaphore_store)
        self.session = session_on(Stores(store, semaphore_store), clock, random, program)

    def mutex(self, name: str, *, wait: float | None = None, on_lost: Callable[[], None] | None = None) -> Lock:
        """Hold the only unit of a semaphore while a block runs: `async with client.mutex("table-x"):`.

        `wait`: seconds, None for as long as it takes. Entering raises `NotGranted` (not in time), `Refused` (its limit
        is another one) and `InvalidInput`; leaving raises `PermitLost`. `on_lost` is called at once when it is lost.
        """
        return self.semaphore(name, limit=1, wait=wait, on_lost=on_lost)

    def semaphore(
        self,
        name: str,
        *,
        limit: int | None = None,
        weight: int = 1,
        wait: float | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> Lock:
        """Hold `weight` units of a semaphore while a block runs; made with `limit` units if nobody has made it yet.

        Otherwise like `mutex`; what the block gets has a `token`, which grows with each grant, and says whether it is
        `lost`. A task may take again what it holds.
        """
        return Lock(self.session, Wanted(name=name, weight=weight, limit=limit, wait=wait, on_lost=on_lost))

    async def close(self) -> None:
        """Give back what is held. The store of the jobs stays open."""
        await self.session.close()
        if self._semaphore_store is not None:
            await self._semaphore_store.close()


@asynccontextmanager
async def open_async(
    url: str | None = None,
    *,
    time_zone: str | None = None,
    author: str | None = None,
    semaphore_store: str | None = None,
) -> AsyncIterator[AsyncClient]:
    """A client of the store at `url` for a block of an asynchronous program; otherwise like `tokimori.open`."""
    loaded, new_stores = load_store(url, time_zone, semaphore_store)
    stores = new_stores()
    await open_prepared(stores.job)
    try:
        client = AsyncClient(
            stores.job,
            SystemClock(),
            os.urandom,
            program=this_program(os.environ),
            time_zone=loaded.settings.time_zone,
            author=author,
            semaphore_store=stores.semaphore,
        )
        try:
            yield client
        finally:
            await client.close()
    finally:
        await stores.job.close()
