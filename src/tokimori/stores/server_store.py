"""Stores on a server: their connections, some of them for beats alone, and their notices."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from tokimori.clock import Moment
from tokimori.errors import StoreError
from tokimori.model.decide import Plan
from tokimori.model.document import Document
from tokimori.model.ids import NodeId, RunId
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.migrations import no_script
from tokimori.stores.notices import Guarded, Notices, OnEnds

MOST_CONNECTIONS = 8
"""Connections of one store, besides one for beats, so that these never wait, and one for notices, if there are any."""
LOOKS_EVERY = 0.25
"""Seconds: see `Guarded`, where a look is a round trip."""
MOST_FOR_DOORS = 4
"""Connections for all requests through doors, opened when they are needed."""


class Connected(Guarded):
    """Connections with a server. `frozen`: they are one session, within a transaction that sees one moment."""

    frozen = False

    async def freeze(self) -> None:
        """Make all later reads see this moment. A server without snapshots leaves `frozen` as it is."""

    def thawed(self, name: str) -> StoreError:
        """Return the error of a session that ended while its moment was read."""
        return StoreError(f"store {name} ended the transaction in which it was read: run the same command again")

    @abstractmethod
    async def close(self) -> None:
        """End all connections; those in use end after their work."""


P = ParamSpec("P")
T = TypeVar("T")
DB = TypeVar("DB", bound=Connected)


class ServerStore(Generic[DB]):
    """Store `name`; `connect` makes a pool with a bounded number of connections. It belongs to one loop."""

    def __init__(self, name: str, connect: Callable[[int], DB], notices: Notices) -> None:
        self._name = name
        self._connect = connect
        self._notices = notices
        self._faults: Sequence[str] = ()
        self._opened: tuple[DB, DB] | None = None
        self._closing = AsyncExitStack()

    async def open(self) -> None:
        db = self._connect(MOST_CONNECTIONS)
        try:
            self._faults = await self._greet(db)
        except StoreError:
            await db.close()
            raise
        self._opened = db, self._connect(1)
        for part in (*self._opened, self._notices):
            self._closing.push_async_callback(part.close)

    async def for_doors(self) -> Self:
        doors = copy(self)
        doors._opened = self._connect(MOST_FOR_DOORS), self.beats
        self._closing.push_async_callback(doors.db.close)
        return doors

    def under(self, guard: Document) -> Self:
        guarded = copy(self)
        guarded._opened = self.db.under(guard), self.beats
        return guarded

    def shut_while(self, document: Document, error: Callable[[], StoreError]) -> None:
        self.db.shut_while(document, error)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Self | None]:
        """See `Copying.snapshot`."""
        db, frozen = self._connect(1), copy(self)
        try:
            await db.freeze()
            frozen._opened = db, self.beats
            yield frozen if db.frozen else None
        finally:
            await db.close()

    @property
    def looks_every(self) -> float:
        return self.db.looks_every

    def mark(self) -> None:
        """Return None: only the server knows."""

    @abstractmethod
    async def _greet(self, db: DB) -> Sequence[str]:
        """Ask the server for its settings; return a sentence for each that breaks a promise."""

    async def close(self) -> None:
        """See `Schema.close`. Notices end first, while there are connections. Each part ends, even if another fails."""
        try:
            await self._closing.aclose()
        finally:
            self._opened = None

    @property
    def db(self) -> DB:
        """Return its connections. Raises `StoreError` while it is closed."""
        return self._open[0]

    @property
    def beats(self) -> DB:
        """Return its connection for beats. Raises `StoreError` while it is closed."""
        return self._open[1]

    @property
    def _open(self) -> tuple[DB, DB]:
        if self._opened is None:
            raise StoreError(f"store {self._name} is not open")
        return self._opened

    def faults(self) -> Sequence[str]:
        return self._faults

    async def script(self, *, whole: bool) -> str:
        raise no_script(f"store {self._name}")

    async def differences(self) -> list[str]:
        raise no_script(f"store {self._name}")

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`. Changes by this object's own callers wake at once."""
        self._notices.watch(wake)

    def send_notice(self) -> None:
        """Notify all watchers."""
        self._notices.send_notice()

    def expect(self, run_ids: Sequence[RunId], on_ends: OnEnds) -> bool:
        return self._notices.expect(run_ids, on_ends)

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        claimed, has_rest = await self._claim(claim, now)
        if has_rest:
            self._notices.wake()
        return claimed

    @abstractmethod
    async def _claim(self, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
        """See `Working.claim`; also return if it has left claimable runs."""


def forwarded(
    work: Callable[Concatenate[DB, P], Awaitable[T]],
) -> Callable[Concatenate[ServerStore[DB], P], Coroutine[Any, Any, T]]:
    """Return the method that does this work with the connections of its store."""

    @wraps(work)
    async def method(store: ServerStore[DB], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await work(store.db, *args, **kwargs)

    return method


class NotifyingStore(ServerStore[DB]):
    """A store on a server that also notifies other nodes of new runs and of woken ones."""

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        answers = await self._apply(plans, now)
        if any(plan.runs for plan, _ in plans):
            self._notices.send_to_others()
        return answers

    @abstractmethod
    async def _apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """See `Planning.apply`."""

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None) -> Run:
        """See `Runs.cancel_run`. All who wait for its end are notified: this program may not know of them."""
        run = await self._cancelled(run_id, reason, now, unbegun)
        self._notices.send_notice()
        self._notices.send_ends([run_id])
        return run

    @abstractmethod
    async def _cancelled(self, run_id: RunId, reason: str, now: Moment, unbegun: int | None) -> Run:
        """See `Runs.cancel_run`."""

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        verdicts, served = await self._settle(changes, by)
        self._notices.ended(change.run_id for change in changes if change.state in ENDS)
        if served or any(change.state not in ENDS for change in changes):
            self._notices.send_to_others()
        return verdicts

    @abstractmethod
    async def _settle(self, changes: Sequence[Change], by: NodeId) -> tuple[list[Verdict], bool]:
        """Return the verdicts, and if other runs or programs got units of a semaphore, or the turn for them."""
