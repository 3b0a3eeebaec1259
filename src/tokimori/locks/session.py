"""The session of a program: the units of semaphores that it holds, and the lines in which it waits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import inf
from types import TracebackType
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import MINUTE, Clock, Moment
from tokimori.errors import NotFound, NotGranted, PermitLost, Refused, StoreUnavailable
from tokimori.locks.holdings import POLL, Held, Holdings, Owner, Wanted, check_weight, lost, pauses
from tokimori.locks.membership import Membership, MemberStore, Program, nap
from tokimori.model.ids import NodeId, PermitId, RandomBytes, uuid7
from tokimori.ports.semaphores import Grant, InLine, NodeGone, SemaphoreTable, UnitRequest

log = logging.getLogger(__name__)

LATE_REPLY = 6.0
"""Seconds after which an abandoned request may still reach the store: until then it is released again."""
AHEAD = MINUTE
"""A place in line that is so far ahead of now comes from a clock that was: it is given up for one of now."""


async def _nothing() -> None:
    """Do nothing: there is nothing to prepare."""


class SessionStore(MemberStore, SemaphoreTable, Protocol):
    """The part of the store that a session uses."""


class Session:
    """Units that one program holds in one store. It joins the cluster when it first wants some.

    `prepare` is awaited before the store is asked for anything, and may open it. For `renewed` and `rests` see
    `Membership`.
    """

    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        random: RandomBytes,
        program: Program,
        *,
        renewed: Callable[[float], None] = lambda _sent: None,
        prepare: Callable[[], Awaitable[object]] = _nothing,
        rests: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._program = program
        self._prepare = prepare
        self._membership = Membership(store, clock, random, program, self, renewed=renewed, rests=rests)
        self._holdings = Holdings()
        self._bells: set[asyncio.Event] = set()
        self._unreported: dict[tuple[PermitId, NodeId], float] = {}

    @property
    def id(self) -> NodeId:
        """Return the id of the program's node. It changes when the program joins again."""
        return self._membership.id

    @property
    def now(self) -> Moment:
        """Return the current time, corrected by the store's clock."""
        return self._membership.now

    async def join(self) -> None:
        """Join, unless the program is a member already. Raises `StoreError`."""
        await self._prepare()
        await self._membership.join()

    async def close(self) -> None:
        """Leave the cluster, and give up all units and places in line, even if the store does not answer."""
        await self._membership.leave()

    # Taking and releasing

    async def acquire(self, wanted: Wanted, owner: Owner) -> Held:
        """Wait for the units, and hold them for the owner. Units that it holds already are taken again at once.

        Raises `NotGranted` (not in time), `Refused` (the weight is above the limit, or the limit is another one),
        `InvalidInput` and `PermitLost`.
        """
        wanted.check()
        held = self._holdings.enter(owner, wanted)
        if held is None:
            await self._prepare()
            held = await self._of_own_run(wanted) or await self._wait_in_line(wanted)
            self._holdings.add(owner, held)
        return held

    async def release(self, owner: Owner, name: str) -> None:
        """Release the units, unless an outer block still needs them. Raises `PermitLost`, and `Refused`."""
        held = self._holdings.leave(owner, name)
        if held.depth == 0 and held.permit is not None and not await self._release(held.permit, held.node):
            held.lose()
        if held.lost:
            raise lost(held)

    async def _of_own_run(self, wanted: Wanted) -> Held | None:
        """Return the units of the run that started this program, if it holds some. Its node ends both together."""
        if wanted.name in self._program.permits:
            weight, token = self._program.permits[wanted.name]
            check_weight(wanted, weight)
            return Held(wanted, token, node=self.id, permit=None)
        if self._program.run_id is None or self._program.token is None:
            return None
        try:
            found = await self._store.get_semaphore(wanted.name)
        except NotFound:
            return None
        for permit in found.holders:
            if (permit.run_id, permit.token) == (self._program.run_id, self._program.token):
                check_weight(wanted, permit.weight)
                return Held(wanted, permit.token, node=permit.node, permit=None)
        return None

    async def _wait_in_line(self, wanted: Wanted) -> Held:
        began = self._clock.monotonic()
        await self._membership.join()
        request = self._request(wanted)
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            while True:
                answer = await self._ask(request)
                if isinstance(answer, Grant) and self._membership.holds_lease():
                    return self._held(wanted, request, answer)
                if isinstance(answer, NodeGone):
                    self._membership.gone(request.node)
                    await self._membership.join()
                    request = replace(request, id=self._new_id(), node=self.id)  # its place in line is the same
                    continue
                await self._wait(wanted, answer, bell, began)
                if self._is_ahead(request.rank):
                    self._release_later(request.id, request.node, LATE_REPLY)
                    request = self._request(wanted)
        except BaseException:
            self._release_later(request.id, request.node, LATE_REPLY)
            raise
        finally:
            self._bells.discard(bell)

    async def _wait(self, wanted: Wanted, answer: Grant | InLine | None, bell: asyncio.Event, began: float) -> None:
        """Wait until it is time to ask again. Raises `NotGranted`.

        A grant after the end of the lease does not count: only an answered beat confirms it.
        """
        left = inf if wanted.wait is None else began + wanted.wait - self._clock.monotonic()
        if left <= 0:
            raise _not_granted(wanted, answer)
        least, most = pauses(answer.ahead) if isinstance(answer, InLine) else (0.0, POLL)
        await nap(bell, min(least, left), min(most, left))

    def _request(self, wanted: Wanted) -> UnitRequest:
        return UnitRequest(
            id=self._new_id(),
            node=self.id,
            semaphore=wanted.name,
            weight=wanted.weight,
            limit=wanted.limit,
            rank=self.now if wanted.rank is None or self._is_ahead(wanted.rank) else wanted.rank,
        )

    def _is_ahead(self, rank: int) -> bool:
        return rank > self.now + AHEAD

    def _new_id(self) -> PermitId:
        return PermitId(uuid7(self.now, self._random))

    async def _ask(self, request: UnitRequest) -> Grant | InLine | NodeGone | None:
        """Return the store's answer to the request; None if there was none."""
        try:
            answer = await self._store.acquire(request, self.now)
            return answer if self._membership.is_current(request.node) else NodeGone()  # it took long
        except StoreUnavailable as fault:
            self._membership.note_away(fault)
            return None

    def _held(self, wanted: Wanted, request: UnitRequest, grant: Grant) -> Held:
        return Held(
            wanted,
            grant.token,
            node=request.node,
            permit=request.id,
            doubtful=lambda: not self._membership.is_current(request.node) or not self._membership.holds_lease(),
        )

    async def _release(self, permit: PermitId, node: NodeId) -> bool:
        """Release a permit, later if the store does not answer now. False if others may have held it."""
        try:
            return await self._store.release(permit, node, self.now)
        except StoreUnavailable:
            self._release_later(permit, node, 0.0)
            return True
        except BaseException:
            self._release_later(permit, node, 0.0)
            raise

    def _release_later(self, permit: PermitId, node: NodeId, patience: float) -> None:
        if self._membership.is_current(node):
            self._unreported[permit, node] = self._clock.monotonic() + patience
            self._membership.hurry()

    # Calls by the membership

    def is_needed(self) -> bool:
        """See `PermitHolder`."""
        return bool(self._bells or self._unreported or any(True for _ in self._holdings))

    def has_unreported(self) -> bool:
        """See `PermitHolder`."""
        return bool(self._unreported)

    async def report(self) -> None:
        """See `PermitHolder`."""
        for (permit, node), until in list(self._unreported.items()):
            if await self._store.release(permit, node, self.now) or self._clock.monotonic() >= until:
                self._unreported.pop((permit, node), None)

    def wake(self) -> None:
        """Let waiters ask again soon, because something may have changed."""
        for bell in self._bells:
            bell.set()

    def lapsed(self) -> None:
        """See `PermitHolder`."""
        for held in self._holdings:
            if held.permit is not None:
                self._handle_loss(held)

    def gone(self) -> None:
        """See `PermitHolder`."""
        self._unreported.clear()
        self.lapsed()

    def _handle_loss(self, held: Held) -> None:
        held.lose()
        on_lost, held.on_lost = held.on_lost, None
        if on_lost is not None:
            try:
                on_lost()
            except Exception:
                log.exception("on_lost raised an error for units that were lost")


def _not_granted(wanted: Wanted, answer: object) -> NotGranted:
    why = "the store did not answer"
    if isinstance(answer, InLine):
        why = f"{answer.ahead} stood before it in line" if answer.ahead else "too few of its units were free"
    return NotGranted(
        f"semaphore: {wanted.name!r} was not granted within {wanted.wait or 0:g} s, because {why}",
        field="wait",
        value=wanted.wait,
        allowed="more seconds; without `wait` it waits as long as it takes",
    )


class Lock:
    """A lock that holds units between enter and exit. It may be used repeatedly, nested and by many tasks."""

    def __init__(self, session: Session, wanted: Wanted) -> None:
        self._session = session
        self._wanted = wanted

    async def __aenter__(self) -> Held:
        """Acquire the units. Raises what `Session.acquire` does."""
        return await self._session.acquire(self._wanted, _task())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the units. Raises `PermitLost`, unless the block has raised an error itself."""
        try:
            await self._session.release(_task(), self._wanted.name)
        except PermitLost:
            if error is None:
                raise


def _task() -> Owner:
    task = asyncio.current_task()
    if task is None:
        raise Refused("semaphore: only a task can hold one: enter the block within a task")
    return task
