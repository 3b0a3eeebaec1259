"""Semaphores, as people ask for them: with the processes that hold their units."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import NodeId, RunId
from tokimori.model.semaphores import MOST_UNITS
from tokimori.model.words import check_word
from tokimori.ports.semaphores import Permit, Semaphore
from tokimori.ports.semaphores import Semaphores as StoredSemaphores
from tokimori.ports.store import NodeRecord, Nodes
from tokimori.service.asking import MOST_LISTED, checked, retried


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds units: a run, or a program; and in which process, as far as that is still known."""

    node_id: NodeId
    run_id: RunId | None
    weight: int
    token: int | None
    since: Moment
    host: str | None
    pid: int | None


class SemaphoreDetails(Struct, frozen=True, kw_only=True):
    """A semaphore: `used` of `limit` units are held, and so many runs and programs wait."""

    name: str
    limit: int
    used: int
    waiting: int
    holders: tuple[Holder, ...]


class SemaphoreStore(StoredSemaphores, Nodes, Protocol):
    """What semaphores ask of the store."""


class Semaphores:
    """Named semaphores. Every method may raise `StoreError`, and `InvalidInput` for what can't be a name."""

    def __init__(self, store: SemaphoreStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[SemaphoreDetails]:
        """By name, those greater than `after`."""
        first = "" if after is None else _checked(after)
        found = await self._store.list_semaphores(after=first, limit=checked("limit", limit, MOST_LISTED))
        nodes = await self._nodes() if any(semaphore.holders for semaphore in found) else {}
        return [_details(semaphore, nodes) for semaphore in found]

    async def get(self, name: str) -> SemaphoreDetails:
        """The semaphore. Raises `NotFound`."""
        found = await self._store.get_semaphore(_checked(name))
        return _details(found, await self._nodes())

    async def set(self, name: str, limit: int) -> SemaphoreDetails:
        """Make it, or give it another limit: who waits is served where there is room now, what is held stays held.

        Raises `Refused` where somebody in its line wants more units than that.
        """
        named, units = _checked(name), checked("limit", limit, MOST_UNITS)
        await retried(lambda: self._store.put_semaphore(named, units, self._clock.now()), StoreUnavailable)
        return await self.get(named)

    async def delete(self, name: str) -> None:
        """Forget it. Raises `NotFound`, and `Refused` while somebody holds units or waits for them."""
        await self._store.get_semaphore(_checked(name))
        await retried(lambda: self._store.delete_semaphore(name), StoreUnavailable)

    async def _nodes(self) -> Mapping[NodeId, NodeRecord]:
        return {node.id: node for node in await self._store.list_nodes()}


def _checked(name: str) -> str:
    check_word("semaphore", name)
    return name


def _details(semaphore: Semaphore, nodes: Mapping[NodeId, NodeRecord]) -> SemaphoreDetails:
    return SemaphoreDetails(
        name=semaphore.name,
        limit=semaphore.limit,
        used=semaphore.used,
        waiting=semaphore.waiting,
        holders=tuple(_holder(permit, nodes.get(permit.node)) for permit in semaphore.holders),
    )


def _holder(permit: Permit, node: NodeRecord | None) -> Holder:
    return Holder(
        node_id=permit.node,
        run_id=permit.run_id,
        weight=permit.weight,
        token=permit.token,
        since=permit.since,
        host=None if node is None else node.host,
        pid=None if node is None else node.pid,
    )
