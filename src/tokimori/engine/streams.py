"""Streams upon documents: append with the next number of a topic, and read what comes after a number."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from tokimori.clock import Moment
from tokimori.errors import Conflict, NotFound, StoreUnavailable
from tokimori.model.document import Document, new_version
from tokimori.model.ids import RandomBytes
from tokimori.model.stream import (
    OPENING,
    Entry,
    Numbered,
    behind_topic,
    decode_entry,
    encode_entry,
    entry_name,
    prefix_of,
    split_name,
    start_at,
)
from tokimori.ports.documents import Documents

MOST_TRIES = 100
"""Tries of a number that others take meanwhile: each time, one of them has succeeded."""
MOST_KNOWN = 10_000
"""Topics whose newest number is remembered."""


class Streams:
    """The streams of one kind of document. Every method may raise `StoreError`.

    A number is taken by a new document of its name, so that no two entries share one. After a freeze the next number
    may have been taken and trimmed: so the writer checks that the entry before its own exists, and removes its own if
    not. Entries are trimmed oldest first, so that this check holds for all later ones.
    """

    def __init__(self, store: Documents, kind: str, random: RandomBytes) -> None:
        self._store = store
        self._kind = kind
        self._random = random
        self._known: dict[str, int] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def append(self, topic: str, entry: Entry) -> int:
        """Append to the topic; return the number. Entries of one program keep their order.

        Raises `Conflict` if others append too often at the same time.
        """
        turn = self._turns.setdefault(topic, asyncio.Lock())
        async with turn:
            for _ in range(MOST_TRIES):
                number = await self._next(topic, entry.at)
                if await self._took(topic, number, encode_entry(entry)):
                    self._know(topic, number)
                    return number
        raise Conflict(f"{self._kind}: too many append to {topic!r} at the same time; try again")

    async def read(self, topic: str, after: int, limit: int) -> Sequence[Numbered]:
        """Return the first entries behind that number, in order. If the first is not the next one, some were trimmed.

        Entries that this version can't read are left out, so that they block no reader.
        """
        name = entry_name(topic, max(after, OPENING))
        while True:
            found = await self._store.list_documents(self._kind, prefix=prefix_of(topic), after=name, limit=limit)
            if (readable := [*_readable(found)]) or len(found) < limit:
                return readable
            name = found[-1].name

    async def topics(self, after: str, limit: int) -> Sequence[str]:
        """Return the first topics behind that one, by name: each costs a read of one entry, however many it has."""
        found, behind = list[str](), behind_topic(after) if after else ""
        while len(found) < limit and (first := await self._store.list_documents(self._kind, after=behind, limit=1)):
            found.append(split_name(first[0].name)[0])
            behind = behind_topic(found[-1])
        return found

    async def newest(self, topic: str, known: int = OPENING) -> int:
        """Return the number of the newest entry, or `known`, that of an older one, if there is none behind it.

        It searches in steps that double, and then between them: entries are many, and none is read twice.
        """
        low, step = known, 1
        while (found := await self._first_behind(topic, low + step - 1)) is not None:
            low, step = found, step * 2
        high = low + step - 1
        while low < high:
            middle = (low + high) // 2
            found = await self._first_behind(topic, middle)
            low, high = (low, middle) if found is None else (found, high)
        return low

    async def _first_behind(self, topic: str, number: int) -> int | None:
        found = await self._store.list_documents(
            self._kind, prefix=prefix_of(topic), after=entry_name(topic, number), limit=1
        )
        return split_name(found[0].name)[1] if found else None

    # A number

    async def _next(self, topic: str, now: Moment) -> int:
        """Return the next number of the topic, as far as this program knows. Open a topic without entries."""
        known = self._known.get(topic)
        if known is None:
            known = await self.newest(topic) or await self._opened(topic, now)
            self._know(topic, known)
        return known + 1

    async def _opened(self, topic: str, now: Moment) -> int:
        """Open the topic if no other program has done so. Return the number after which its entries begin."""
        opening = self._document(topic, OPENING, str(start_at(now)))
        try:
            await self._put(opening)
        except Conflict:
            opening = await self._store.get_document(self._kind, opening.name)
        return int(opening.text)

    async def _took(self, topic: str, number: int, text: str) -> bool:
        """Store an entry under this number. Return False if the number is taken, or does not follow the last entry."""
        document = self._document(topic, number, text)
        try:
            await self._put(document)
        except Conflict:
            self._know(topic, await self.newest(topic, number))
            return False
        if await self._follows(topic, number):
            return True
        self._known.pop(topic, None)
        await self._store.delete_document(self._kind, document.name, document.version)
        return False

    async def _follows(self, topic: str, number: int) -> bool:
        """Return if the number follows: the entry before it exists, or it is the first after the opening."""
        with suppress(NotFound):
            await self._store.get_document(self._kind, entry_name(topic, number - 1))
            return True
        with suppress(NotFound):
            opening = await self._store.get_document(self._kind, entry_name(topic, OPENING))
            return int(opening.text) == number - 1
        return False

    def _know(self, topic: str, number: int) -> None:
        if len(self._known) >= MOST_KNOWN and topic not in self._known:
            self._known.clear()
        self._known[topic] = number

    def _document(self, topic: str, number: int, text: str) -> Document:
        version = new_version(self._random)
        return Document(kind=self._kind, name=entry_name(topic, number), text=text, version=version)

    async def _put(self, document: Document) -> None:
        """Put the document, and once more after a lost reply: the store recognises it."""
        try:
            await self._store.put_document(document, None)
        except StoreUnavailable:
            await self._store.put_document(document, None)


def _readable(found: Sequence[Document]) -> Iterator[Numbered]:
    for each in found:
        with suppress(ValueError):
            yield Numbered(number=split_name(each.name)[1], entry=decode_entry(each.text))
