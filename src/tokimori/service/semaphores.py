"""Semaphores as people see them: with the processes that hold their units."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound, StoreError, StoreUnavailable
from tokimori.model.access_token import Role
from tokimori.model.claim_rate import NO_RATE, parse_claim_rate
from tokimori.model.ids import NodeId, RunId
from tokimori.model.job import Definition
from tokimori.model.lanes import lane_of
from tokimori.model.semaphores import DEFAULT_LIMIT, MOST_UNITS, is_rate_alone, wanted
from tokimori.model.words import check_word
from tokimori.ports.nodes import NodeRecord, Nodes
from tokimori.ports.semaphores import Permit, Semaphore, SemaphoreTable
from tokimori.ports.semaphores import SemaphoreTable as StoredSemaphores
from tokimori.service.access import OPEN, WHOLE, Sight
from tokimori.service.operation import MADE, STATE, M, Part, operation
from tokimori.service.reasons import Reason
from tokimori.service.store_calls import retried
from tokimori.service.validation import MOST_LISTED, checked
from tokimori.service.views.outside import list_of
from tokimori.service.views.resources import SemaphoreDetails as SemaphoreView
from tokimori.service.why import stops
from tokimori.spelling import amount

LONGEST_LANE = 2048
"""The most characters of a lane that every store can keep."""


class Holder(Struct, frozen=True, kw_only=True):
    """A holder of units: a run or a program, with its process as far as that is still known."""

    node_id: NodeId
    run_id: RunId | None
    weight: int
    token: int | None
    since: Moment
    host: str | None
    pid: int | None


class SemaphoreDetails(Struct, frozen=True, kw_only=True):
    """A semaphore: `used` of its `limit` units are held, and `waiting` runs and programs wait.

    `taken` units count for its `rate` now; `goes_on` is the time at which the rate lets the first in line start.
    """

    name: str
    limit: int
    used: int
    waiting: int
    holders: tuple[Holder, ...]
    rate: str | None = None
    taken: int | None = None
    goes_on: Moment | None = None


class SemaphoreStore(StoredSemaphores, Nodes, Protocol):
    """The part of the store that semaphores use."""


class Semaphores(Part[M]):
    """Named semaphores. Every method may raise `StoreError`, and `InvalidInput` for an invalid name.

    `opened` returns the store that has them.
    """

    noun, word = "semaphores", "semaphore"

    def __init__(self, opened: Callable[[], Awaitable[SemaphoreStore]]) -> None:
        self._opened = opened

    @operation(Role.READ, OPEN, gives=list_of(SemaphoreView.made))
    async def list(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[SemaphoreDetails]:
        """List semaphores by name, from the first one behind `after`."""
        first = "" if after is None else _checked(after, field="after")
        store, most = await self._opened(), checked("limit", limit, MOST_LISTED)
        found = list[Semaphore]()
        while len(found) < most and (page := await store.list_semaphores(after=first, limit=most - len(found))):
            found += [each for each in page if not is_rate_alone(each.name)]
            first = page[-1].name
        nodes = await _nodes(store) if any(semaphore.holders for semaphore in found) else {}
        return [_details(semaphore, nodes) for semaphore in found]

    @list.within
    async def _list_within(
        self, _: Sight, after: str | None = None, limit: int = MOST_LISTED
    ) -> Sequence[SemaphoreDetails]:
        """Return the semaphores without their holders, which may be outside the scope."""
        return [replace(each, holders=()) for each in await self.list(after, limit)]

    @operation(Role.READ, OPEN, gives=SemaphoreView.made)
    async def get(self, name: str) -> SemaphoreDetails:
        """Return the semaphore. Raises `NotFound`."""
        checked_name, store = _checked(name), await self._opened()
        return _details(await store.get_semaphore(checked_name), await _nodes(store))

    @get.within
    async def _get_within(self, _: Sight, name: str) -> SemaphoreDetails:
        return replace(await self.get(name), holders=())

    async def _state(self, name: str) -> object:
        """Return the limit and the rate."""
        found = await self.get(name)
        return {"limit": found.limit} | ({} if found.rate is None else {"rate": found.rate})

    @operation(Role.OPERATE, WHOLE, audit=STATE, event=MADE, gives=SemaphoreView.made)
    async def set(self, name: str, limit: int | None = None, rate: str | None = None) -> SemaphoreDetails:
        """Make a semaphore, or change its limit and its rate. Waiting runs start if there is room now.

        `rate` is the number of units in any period, such as `100/1m`; a ` smooth` after it spaces them evenly, and
        `none` removes it. An argument that is not given changes nothing. A new semaphore has one unit, or with a rate
        alone any number. Held units stay held, and recent ones count for the new rate. Raises `Refused` if a waiting
        run needs more units than the new limit or rate.
        """
        named, store = _checked(name), await self._opened()
        units = None if limit is None else checked("limit", limit, MOST_UNITS)
        pace = None if rate is None or rate == NO_RATE else parse_claim_rate(rate, field="rate")
        if limit is None or rate is None:
            known = await _semaphore_or_none(store, named)
            if known is None and limit is None and pace is None:
                message = "limit: a semaphore is set to a limit, a rate or both"
                raise InvalidInput(message, field="limit", value=None, allowed=f"a number from 1 to {MOST_UNITS:,}")
            units = units or (MOST_UNITS if known is None else known.limit)
            pace = known.rate if rate is None and known is not None else pace
        now, whole = await retried(store.now, StoreUnavailable), units or MOST_UNITS
        await retried(lambda: store.put_semaphore(named, whole, now, pace), StoreUnavailable)
        return await self.get(named)

    @operation(Role.OPERATE, WHOLE, audit=STATE, event="deleted")
    async def delete(self, name: str) -> None:
        """Delete a semaphore. Raises `NotFound`, and `Refused` while units are held or waited for."""
        checked_name, store = _checked(name), await self._opened()
        await store.get_semaphore(checked_name)
        await retried(lambda: store.delete_semaphore(name), StoreUnavailable)


async def _semaphore_or_none(store: SemaphoreTable, name: str) -> Semaphore | None:
    with suppress(NotFound):
        return await store.get_semaphore(name)
    return None


async def _nodes(store: SemaphoreStore) -> Mapping[NodeId, NodeRecord]:
    return {node.id: node for node in await store.list_nodes()}


def _checked(name: str, *, field: str = "semaphore") -> str:
    check_word(field, name)
    return name


def _details(semaphore: Semaphore, nodes: Mapping[NodeId, NodeRecord]) -> SemaphoreDetails:
    return SemaphoreDetails(
        name=semaphore.name,
        limit=semaphore.limit,
        used=semaphore.used,
        waiting=semaphore.waiting,
        holders=tuple(_holder(permit, nodes.get(permit.node)) for permit in semaphore.holders),
        rate=None if semaphore.rate is None else str(semaphore.rate),
        taken=None if semaphore.rate is None else semaphore.taken,
        goes_on=semaphore.wakes,
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


def units_at_once(semaphore: Semaphore) -> int:
    """Return the most units that one run can ever have: those of a period, if they are fewer than the limit."""
    return semaphore.limit if semaphore.rate is None else min(semaphore.limit, semaphore.rate.units)


def placed(definition: Definition, *, apart: bool) -> Definition:
    """Return the definition with its semaphores' place filled in; `apart`: another store. Raises `InvalidInput`."""
    found = replace(definition, apart=apart and bool(definition.semaphores))
    if found.apart and len(lane_of(found)) > LONGEST_LANE:
        raise InvalidInput(
            "semaphores: their names are too long for one job, where they are in another store",
            field="semaphores",
            value=",".join(definition.semaphores),
            allowed=f"fewer or shorter names: with the queue and the labels {LONGEST_LANE} characters in all",
        )
    return found


class Weights:
    """The weights of jobs, compared with the limits of semaphores. `opened` gives the store that keeps these.

    `limits` are those that semaphores are to have, but have not yet.
    """

    def __init__(
        self, opened: Callable[[], Awaitable[SemaphoreTable]], limits: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._opened = opened
        self._limits = limits

    async def check(self, definition: Definition) -> None:
        """Refuse a weight above the limit of its semaphore: its runs would never start. Raises `InvalidInput`.

        A semaphore without a setting has a limit of one. Its limit can be lowered or deleted later while no waiting run
        needs more, as only a look at every job would prevent that. Such runs then wait, with the reason `too_heavy`.
        """
        async for name, weight, limit in self._above_their_limits(definition):
            raise _never_fits(name, weight, limit)

    def check_lowered(self, definition: Definition) -> None:
        """Refuse a weight above a limit that its semaphore is to get while the job is there. Raises `InvalidInput`."""
        for name, weight in wanted(definition.semaphores):
            if weight > (limit := self._limits.get(name, weight)):
                raise _never_fits(name, weight, limit)

    async def too_heavy(self, definition: Definition) -> tuple[Reason, ...]:
        """Return the weights above the limits of their semaphores, which were lowered since: no run can start.

        Return none while the store of the semaphores does not answer.
        """
        try:
            heavy = [found async for found in self._above_their_limits(definition)]
        except StoreError:
            return ()
        return tuple(stops.too_heavy(*each) for each in heavy)

    async def _above_their_limits(self, definition: Definition) -> AsyncIterator[tuple[str, int, int]]:
        """Yield (name, weight, limit) of each weight that does not fit. One unit always fits."""
        for name, weight in wanted(definition.semaphores):
            if weight > DEFAULT_LIMIT and weight > (limit := await self._limit(name)):
                yield name, weight, limit

    async def _limit(self, name: str) -> int:
        if name in self._limits:
            return self._limits[name]
        try:
            return units_at_once(await (await self._opened()).get_semaphore(name))
        except NotFound:
            return DEFAULT_LIMIT


def _never_fits(name: str, weight: int, limit: int) -> InvalidInput:
    return InvalidInput(
        f"semaphores: {name!r} has a limit of {limit}, so that {amount(weight, 'unit')} never fit: raise it with "
        f"`tokimori lock set {name} --limit {weight}`",
        field="semaphores",
        value=f"{name}:{weight}",
        allowed=f"{name}:1{f' to {name}:{limit}' if limit > 1 else ''}, or a larger limit first",
    )
