"""Prune the audit log: what is older than it is kept is deleted, some entries at a time."""

from collections.abc import Callable

from tokimori.clock import DAY, Moment
from tokimori.errors import Conflict
from tokimori.model.audit import KIND, older_than
from tokimori.model.ids import NodeId
from tokimori.ports.documents import Documents
from tokimori.ports.nodes import Pulse

EVERY = 3600.0
"""Seconds from one look to the next, give or take a half by chance: nodes do not look at the same time."""
PAUSE = 0.5
"""Seconds to the next step after one that found a whole batch."""
BATCH = 20
"""How many entries one step deletes, each in a transaction of its own."""


class AuditPruner:
    """Deletes entries that are older than `keep` days; 0: none ever. All other times are seconds."""

    def __init__(self, store: Documents, at: float, chance: Callable[[], float], keep: int) -> None:
        self._store = store
        self._chance = chance
        self._keep = keep
        self.next_at = at + EVERY * chance() if keep else float("inf")

    def hear(self, pulse: Pulse) -> None:
        """See `Duty`. Nothing concerns it."""

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        if at < self.next_at:
            return False
        self.next_at = at + EVERY * (0.5 + self._chance())
        oldest = older_than(Moment(now - self._keep * DAY))
        found = await self._store.list_documents(KIND, after=oldest, limit=BATCH)
        for each in found:
            try:
                await self._store.delete_document(KIND, each.name, each.version)
            except Conflict:  # nobody changes an entry; whoever does so keeps it
                continue
        if len(found) == BATCH:
            self.next_at = at + PAUSE
        return False
