"""Turns at a set: what several declare together has a version, and is changed under it or not at all.

A change takes the next version, with a lease, just before it changes the first thing. The store compares the version in
each transaction, so that of two changes exactly one goes on. Apps, whose nodes declare their jobs, take turns likewise.
"""

from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.errors import Conflict, NotFound, Overtaken, StoreError
from tokimori.model.document import Document, texts_of
from tokimori.model.ids import RandomBytes
from tokimori.ports.store import Store
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.shared import Shared
from tokimori.service.store_calls import Now

TURN_LASTS = 30 * SECOND
"""Lease of a set while it is changed."""
_RENEWED = 10 * SECOND
"""Age at which a change under way renews it."""


class SetVersion(Struct, frozen=True, kw_only=True):
    """A version of a set: who applies it since `begun`, or has done so. `until`: to when he may; None: it is whole."""

    name: str
    version: int
    id: str
    by: str | None
    begun: Moment
    until: Moment | None = None

    def is_at_work(self, now: Moment) -> bool:
        """Return whether its lease lasts; one far longer than a lease was taken by a clock that was ahead."""
        return self.until is not None and now < self.until <= now + 2 * TURN_LASTS


class SetState(Struct, frozen=True, kw_only=True):
    """State of a set, or of `app/NAME`: its last author, the time, and the number of its jobs.

    `half_applied`: the last apply was interrupted; applying it again finishes it.
    """

    name: str
    state: Literal["whole", "at_work", "half_applied"]
    version: int
    jobs: int
    by: str | None = None
    begun: Moment | None = None


SETS = DocumentKind("set", *texts_of(SetVersion))


def state_of_set(name: str, last: SetVersion | None, jobs: int, now: Moment) -> SetState:
    """Return the state of a set. One that was applied before sets had versions is whole."""
    if last is None:
        return SetState(name=name, state="whole", version=0, jobs=jobs)
    state: Literal["whole", "at_work", "half_applied"] = "at_work" if last.is_at_work(now) else "half_applied"
    if last.until is None:
        state = "whole"
    return SetState(name=name, state=state, version=last.version, jobs=jobs, by=last.by, begun=last.begun)


def no_set(name: str) -> NotFound:
    """Return the error for a name that no set has."""
    return NotFound(f"there is no set {name!r}: `tokimori set list` shows them", field="set", value=name)


class SetTurn:
    """A turn at the set of this name. Leaving it in an error leaves the set half applied, if anything was changed."""

    def __init__(self, store: Store, name: str, now: Now, random: RandomBytes, by: str | None) -> None:
        self._store, self._name, self._now, self._random, self._by = store, name, now, random, by
        self._documents = Documents(store, SETS, random)
        self._known: Document | None = None
        self._own: SetVersion | None = None

    async def __aenter__(self) -> Self:
        """Read the version of the set; the plan is carried out only if it is still the same. Raises `Conflict`."""
        with suppress(NotFound):
            self._known = await self._documents.find(self._name)
        known = self._version()
        if known is not None and known.until is not None and known.is_at_work(await self._now()):
            raise Conflict(
                f"set {self._name}: another apply is at work, by {known.by or 'somebody'} since "
                f"{format_moment(known.begun)}: try again when it has ended; what it left is free after "
                f"{format_moment(known.until)}",
                field="set",
                value=self._name,
            )
        return self

    async def store(self) -> Store:
        """Return the store, which is changed under this turn only. Raises `Conflict` if another one was faster."""
        now, known = await self._now(), self._known
        own = self._own or self._next(now)
        if known is None or own.until is None or now >= own.until - TURN_LASTS + _RENEWED:
            known = await self._put(replace(own, until=Moment(now + TURN_LASTS)))
        return self._store.under(known)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        known = self._version()
        if self._own is None and (kind is not None or known is None or known.until is None):
            return
        if kind is None:
            await self._put(replace(self._own or self._next(await self._now()), until=None))
        elif self._own is not None and not isinstance(error, Overtaken):
            with suppress(Conflict, StoreError):
                await self._put(replace(self._own, until=await self._now()))
        if isinstance(error, Overtaken):
            raise self._slower() from None

    def _version(self) -> SetVersion | None:
        return None if self._known is None else self._documents.value_of(self._known)

    def _next(self, now: Moment) -> SetVersion:
        known = self._version()
        number = 1 if known is None else known.version + 1
        return SetVersion(name=self._name, version=number, id=self._random(8).hex(), by=self._by, begun=now)

    async def _put(self, value: SetVersion) -> Document:
        known, documents = self._known, self._documents
        try:
            kept = await (documents.add(self._name, value) if known is None else documents.replace(known, value))
        except Conflict:
            raise self._slower() from None
        self._known, self._own = kept, value
        return kept

    def _slower(self) -> Conflict:
        message = f"set {self._name}: another apply was faster: look at what it did, and apply the set again"
        return Conflict(message, field="set", value=self._name)


def turn_at(shared: Shared, by: str | None, name: str, store: Store | None = None) -> SetTurn:
    """Return a turn at this set, in the store of `shared` unless another one is given."""
    return SetTurn(store or shared.store, name, shared.now, shared.random, by)
