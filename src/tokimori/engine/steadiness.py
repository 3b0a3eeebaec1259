"""Steadiness: how long the store's time has run steadily, as nodes that come and go have seen it one after another."""

from collections.abc import Callable

from tokimori.clock import SECOND, Moment
from tokimori.errors import Conflict, NotFound
from tokimori.model.document import Document, new_version
from tokimori.model.ids import RandomBytes
from tokimori.ports.documents import Documents

KIND, NAME = "clock", "steady"
GAP, AHEAD = 60 * SECOND, SECOND
"""A note so old still follows on from the present, and one from so far ahead. Smaller leaps put no cursor ahead."""


class Steadiness:
    """The steady time that this node has seen itself (`own`, seconds), and what it finds noted in the store."""

    def __init__(self, store: Documents, own: Callable[[float], float], random: RandomBytes) -> None:
        self._store = store
        self._own = own
        self._random = random

    async def seconds(self, now: Moment, at: float) -> float:
        """Return for how many seconds the store's time has run steadily, and note it for nodes that come after."""
        since, version = now - round(self._own(at) * SECOND), None
        try:
            known = await self._store.get_document(KIND, NAME)
            version = known.version
            noted, seen = map(int, known.text.split())
            if now - GAP <= seen <= now + AHEAD:
                since = min(since, noted)
        except (NotFound, ValueError):
            pass
        following = new_version(self._random) if version is None else version + 1
        note = Document(kind=KIND, name=NAME, text=f"{since} {now}", version=following)
        try:
            await self._store.put_document(note, version)
        except Conflict:
            pass  # another node has noted it in the same moment
        return (now - since) / SECOND
