"""Reap: take the runs of dead nodes, and have them settled as lost."""

from collections.abc import Callable
from math import inf
from typing import Protocol

from tokimori.clock import Moment
from tokimori.engine.settle import change_of
from tokimori.model.ids import NodeId
from tokimori.model.outcome import Lost
from tokimori.ports.meter import UNMETERED, Meter
from tokimori.ports.nodes import Nodes, Pulse
from tokimori.ports.working import Change, Claimed, Verdict, Working

BATCH = 500


class Reaping(Nodes, Working, Protocol):
    """What reaping asks of the store."""


class Reaper:
    """Takes over the runs of dead nodes, a batch at each step, from when a tick tells of any until none is left."""

    def __init__(self, store: Reaping, chance: Callable[[], float], meter: Meter = UNMETERED) -> None:
        self._store = store
        self._chance = chance
        self._meter = meter
        self._orphans = False

    @property
    def next_at(self) -> float:
        """See `Duty`."""
        return -inf if self._orphans else inf

    def hear(self, pulse: Pulse) -> None:
        """See `Duty`."""
        self._orphans = pulse.orphans

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        self._orphans = await reap(self._store, by, now, self._chance, self._meter) > 0
        return True


async def reap(store: Reaping, by: NodeId, now: Moment, chance: Callable[[], float], meter: Meter = UNMETERED) -> int:
    """Settle up to `BATCH` runs of dead nodes; how many this call settled.

    Zero: none is left, or others were faster.
    """
    orphans = await store.orphans(BATCH)
    changes = [_lost(orphan, now, chance()) for orphan in orphans]
    if not changes:
        return 0
    verdicts = await store.settle(changes, by, now)
    meter.settled(changes, verdicts)
    return sum(verdict is Verdict.APPLIED for verdict in verdicts)


def _lost(orphan: Claimed, now: Moment, chance: float) -> Change:
    owner = orphan.run.node_id or NodeId("")
    return change_of(
        orphan,
        Lost(f"node {owner} died"),
        owner=owner,
        now=now,
        chance=chance,
        started=orphan.run.started,
        pid=orphan.run.pid,
    )
