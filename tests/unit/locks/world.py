"""Programs on one memory store and one virtual loop: time passes only when all of them wait."""

import os
from functools import partial

from tests.simulation.virtual_time import LoopClock
from tests.unit.virtual import Link
from tokimori.locks.holdings import Held, Wanted
from tokimori.locks.membership import Program
from tokimori.locks.session import Session
from tokimori.model.ids import RunId, Token
from tokimori.stores.memory.store import MemoryStore


class FrozenClock(LoopClock):
    """A clock that has gone on while its program was frozen: `skipped` seconds in all."""

    skipped = 0.0

    def monotonic(self) -> float:
        """The monotonic clock."""
        return super().monotonic() + self.skipped


def a_store() -> MemoryStore:
    """An empty one, in the loop's time."""
    return MemoryStore(LoopClock())


class Member:
    """A program, its way to the store, and what its command was told."""

    def __init__(
        self, store: MemoryStore, *, offset: float = 0.0, run: tuple[RunId, Token] | None = None, pid: int = 1
    ) -> None:
        self.clock = FrozenClock(offset)
        self.link = Link(store)
        self.renewals: list[float] = []
        self.lost: list[str] = []
        run_id, token = run or (None, None)
        program = Program(host="h", boot_id="b", pid=pid, version="0", run_id=run_id, token=token)
        self.session = Session(self.link.store, self.clock, os.urandom, program, renewed=self.renewals.append)

    async def acquire(
        self,
        name: str = "table",
        *,
        owner: object = "ada",
        weight: int = 1,
        limit: int | None = None,
        wait: float | None = None,
        rank: int | None = None,
    ) -> Held:
        """Hold it for the owner; `lost` notes its loss."""
        lost = partial(self.lost.append, name)
        wanted = Wanted(name=name, weight=weight, limit=limit, wait=wait, rank=rank, on_lost=lost)
        return await self.session.acquire(wanted, owner)

    async def release(self, name: str = "table", *, owner: object = "ada") -> None:
        """Give it back."""
        await self.session.release(owner, name)
