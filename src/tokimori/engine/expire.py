"""Expire: requested runs that have not begun in time end as skipped.

A document stands for each run with `expires`, under that moment: so the first ones are found without a walk over runs.
It is written before the run, and so none is missed; one without a run is deleted when its moment has come.
"""

from contextlib import suppress
from typing import Protocol

from tokimori.clock import SECOND, Moment
from tokimori.errors import NotFound
from tokimori.model.document import Document
from tokimori.model.ids import NodeId, RunId
from tokimori.model.run import Run, expired
from tokimori.ports.documents import Documents
from tokimori.ports.nodes import Pulse
from tokimori.ports.store import Runs

KIND = "expiry"
EVERY, SOONEST = 10.0, 0.2
"""Seconds from one look to the next, at most and at least. Which claimed run has expired its node sees by itself."""
BATCH = 50
"""Runs that one step ends at most, each in a transaction of its own."""
_VERSION = 1
"""Version of each document: none is ever changed, and the same one may be written again."""


class ExpiringStore(Documents, Runs, Protocol):
    """Questions of expiring to the store."""


def _noted(name: str) -> Document:
    return Document(kind=KIND, name=name, text="", version=_VERSION)


async def note_expiry(store: Documents, run: Run) -> None:
    """Write when the run expires, if it does."""
    if run.details.expires is not None:
        await store.put_document(_noted(f"{run.details.expires:020d} {run.id}"), None)


class Expirer:
    """Duty to end runs that have not begun by the moment at which their requests expire."""

    def __init__(self, store: ExpiringStore, at: float) -> None:
        self._store = store
        self.next_at = at

    def hear(self, pulse: Pulse) -> None:
        """See `Duty`. Nothing concerns it."""

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. The first runs whose moment has come, and the time of the next one."""
        if at < self.next_at:
            return False
        self.next_at = at + EVERY
        for each in await self._store.list_documents(KIND, limit=BATCH):
            moment, _, run_id = each.name.partition(" ")
            if (left := int(moment) - now) > 0:
                self.next_at = at + min(EVERY, max(SOONEST, left / SECOND))
                return False
            self.next_at = at + SOONEST
            await self._expire(RunId(run_id), now)
            await self._store.delete_document(KIND, each.name, _VERSION)
        return False

    async def _expire(self, run_id: RunId, now: Moment) -> None:
        with suppress(NotFound):
            run = await self._store.get_run(run_id)
            if (why := expired(run, now)) is not None:
                await self._store.cancel_run(run_id, why, now, run.attempt)
