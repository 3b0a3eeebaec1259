"""Reap: take the runs of dead nodes, and have them settled as lost."""

import logging
from asyncio import gather
from collections.abc import Callable
from math import inf
from typing import Protocol

from tokimori.clock import Moment
from tokimori.engine.families import Families, FamilyStore
from tokimori.engine.refusals import is_fault_of_request, log_refusal
from tokimori.engine.settle import change_of
from tokimori.engine.unsettled import Unsettled
from tokimori.model.attempt_notes import NUMBER, Notes, notes_in
from tokimori.model.ids import NodeId
from tokimori.model.outcome import Lost
from tokimori.model.target import Function
from tokimori.ports.meter import UNMETERED, Meter
from tokimori.ports.nodes import Nodes, Pulse
from tokimori.ports.working import Change, Claimed, Verdict, is_cut

log = logging.getLogger(__name__)

FIRST, BATCH = 50, 500
"""Runs read at first, and at most. Fewer are read if they are large: a payload may have a megabyte."""


class Reaping(Nodes, FamilyStore, Protocol):
    """Questions of reaping to the store."""


class Reaper:
    """Duty to take over the runs of dead nodes, a batch at each step, from when a tick reports any until none is
    left."""

    def __init__(self, store: Reaping, chance: Callable[[], float], meter: Meter = UNMETERED) -> None:
        self._store = store
        self._chance = chance
        self._meter = meter
        self._orphans = False
        self._many = FIRST
        self._unsettled, self._families = Unsettled(), Families(store)

    @property
    def next_at(self) -> float:
        """See `Duty`."""
        return -inf if self._orphans else inf

    def receive(self, pulse: Pulse) -> None:
        """Receive the store's answer to the node's beat."""
        self._orphans = pulse.orphans

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. A refused run hinders no other."""
        if not self._unsettled.ready(at):
            orphans = await self._read()
            for orphan, notes in zip(orphans, await gather(*map(self._notes_of, orphans)), strict=True):
                self._unsettled.add(_lost(orphan, notes, now, self._chance()), orphan.run.payload)
        self._orphans = await self._settle(by, now, at)
        return True

    async def _read(self) -> list[Claimed]:
        """Return orphans: twice as many as last time at most, and half as many if those were large or were refused."""
        many, self._many = self._many, max(1, self._many // 2)
        orphans = await self._store.orphans(many + self._unsettled.refused)
        if not is_cut(orphans):
            self._many = min(BATCH, 2 * many)
        return orphans

    async def _notes_of(self, orphan: Claimed) -> Notes | None:
        """Return the notes that the lost attempt has left. The next attempt goes on from them."""
        run, definition = orphan.run, orphan.definition
        if definition is None or (not isinstance(definition.target, Function) and definition.payload is None):
            return None
        return notes_in(await self._store.output(run.id, NUMBER), run)

    async def _settle(self, by: NodeId, now: Moment, at: float) -> bool:
        """Settle lost runs. Return if any settle took effect: then there may be more of them."""
        changes = self._unsettled.batch(at)
        if not changes:
            return False
        try:
            verdicts = await self._store.settle(changes, by, now)
        except Exception as fault:
            if not is_fault_of_request(fault):
                raise
            log_refusal(log, self._unsettled.refuse(changes, fault, at), fault)
            if self._unsettled.ill(changes, fault):
                raise
            return True
        self._meter.settled(changes, verdicts)
        self._unsettled.settled(changes)
        await self._families.settled(changes, verdicts, by, now)
        return Verdict.APPLIED in verdicts


def _lost(orphan: Claimed, notes: Notes | None, now: Moment, chance: float) -> Change:
    owner = orphan.run.node_id or NodeId("")
    return change_of(
        orphan,
        Lost(f"node {owner} died"),
        owner=owner,
        now=now,
        chance=chance,
        started=orphan.run.started,
        pid=orphan.run.pid,
        notes=notes,
    )
