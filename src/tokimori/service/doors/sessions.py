"""Sessions that were logged out: a copy of their cookie opens nothing any more, at no node."""

from contextlib import suppress

from msgspec import Struct

from tokimori.clock import Clock
from tokimori.errors import AlreadyExists, NotFound, StoreError
from tokimori.model.document import texts_of
from tokimori.model.ids import RandomBytes
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.service import Service
from tokimori.service.store_calls import retried

MOST_ENDED = 100
"""Number of the newest sessions of one principal that are known as ended; all older ones have ended, too."""
KNOWN_FOR = 1.0
"""Seconds for which a door believes what the store said."""
MOST_KNOWN = 256
OWNER = "*"
"""Name under which sessions with the node's secret are stored: no token has it."""


class Ended(Struct, frozen=True, kw_only=True):
    """Ended sessions of a principal: those of `sessions`, and all whose id is not greater than `through`."""

    through: str = ""
    sessions: tuple[str, ...] = ()

    def has(self, session: str) -> bool:
        """Return whether the session has ended."""
        return session <= self.through or session in self.sessions

    def with_one(self, session: str) -> "Ended":
        """Return these, and one more."""
        known = sorted({*self.sessions, session})
        gone = known[:-MOST_ENDED]
        return Ended(through=max([self.through, *gone]), sessions=tuple(known[-MOST_ENDED:]))


ENDED = DocumentKind("session", *texts_of(Ended))


class Sessions:
    """Sessions that have ended. Every method may raise `StoreError`."""

    def __init__(self, store: DocumentStore, clock: Clock, random: RandomBytes) -> None:
        self._documents = Documents(store, ENDED, random)
        self._clock = clock
        self._random = random
        self._known: dict[str, tuple[float, Ended]] = {}

    async def new(self, name: str) -> str:
        """Return the id of a session that begins now: later ones are greater.

        It is greater than the ids of all that have ended, even of those that began while the clock was ahead.
        """
        ended = Ended()
        with suppress(StoreError):  # the owner may look at a node whose store is away
            ended = await self._read(name)
        newest = max(ended.through, *ended.sessions, "0")
        return f"{max(self._clock.now(), int(newest[:16], 16) + 1):016x}{self._random(8).hex()}"

    async def has_ended(self, name: str, session: str) -> bool:
        """Check if a session of the token of that name was logged out."""
        sent = self._clock.monotonic()
        asked, ended = self._known.get(name, (float("-inf"), Ended()))
        if sent >= asked + KNOWN_FOR:
            ended = await self._read(name)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[name] = (sent, ended)
        return ended.has(session)

    async def _read(self, name: str) -> Ended:
        try:
            return await self._documents.get(name)
        except NotFound:
            return Ended()

    async def end(self, name: str, session: str) -> None:
        """Log a session out, wherever its cookie is."""
        await retried(lambda: self._end(name, session), AlreadyExists)
        self._known.pop(name, None)

    async def _end(self, name: str, session: str) -> None:
        try:
            await self._documents.change(name, lambda known: known.with_one(session))
        except NotFound:
            await self._documents.add(name, Ended().with_one(session))


def sessions_of(service: Service, clock: Clock) -> Sessions:
    """Return the sessions at the doors of a store."""
    return Sessions(service._shared.store, clock, service._shared.random)
