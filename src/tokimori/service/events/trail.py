"""Changes in the order in which they were written, read from the audit log, which has the newest first."""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from tokimori.clock import MINUTE, Moment
from tokimori.model.audit import KIND, Changed, changed_in, older_than, written_at
from tokimori.model.document import Document
from tokimori.ports.documents import Documents
from tokimori.ports.ends import EndPlace

log = logging.getLogger(__name__)

FEW, MOST = 4, 50
"""Number of entries read at once: a few if nothing much happens. One of them may have 256 KiB."""
FIRST_SPAN = MINUTE
"""Span of past entries that is looked at first."""


class ChangeTrail(Struct, frozen=True, kw_only=True):
    """Some changes in order, and the place at which to go on; `rest` is None if there were no more."""

    found: Sequence[Changed]
    rest: EndPlace | None


class Trail:
    """Reads the audit log forwards. It is listed backwards, so the entries behind a moment are looked for in spans."""

    def __init__(self, store: Documents) -> None:
        self._store = store
        self._span = FIRST_SPAN

    async def ended_since(self, place: EndPlace, limit: int) -> ChangeTrail:
        """Return the first changes written at this moment or later.

        More than `limit` come only if they share a moment, or one entry of an older version. A change by a slow writer
        may appear before others that were read already.
        """
        newest = await self._newest(place, limit)
        if newest is None:
            return await self._in_spans(place, limit)
        return await _read_trail(newest, None, limit)

    async def _newest(self, place: EndPlace, limit: int) -> Sequence[Document] | None:
        """Return all from there on; None: they are more than can be read at once."""
        for most in (min(FEW, limit), min(MOST, limit)):
            page = await self._store.list_documents(KIND, limit=most)
            if _is_all(page, place, most):
                return _behind(page, place)
        return None

    async def _in_spans(self, place: EndPlace, limit: int) -> ChangeTrail:
        """Return changes of a span with some, but not too many: it is halved and doubled until that is so."""
        begin, span, most = place.written, self._span, min(limit, MOST)
        newest = written_at((await self._store.list_documents(KIND, limit=1))[0].name)
        while True:
            end = Moment(begin + span)
            page: Sequence[Document] = await self._store.list_documents(KIND, after=older_than(end), limit=most)
            if span and not _is_all(page, place, most):
                span //= 2
                continue
            if not span:  # all of them bear the same moment
                page = await self._of_moment(page, place, most)
            found = _behind(page, place)
            if found or end >= newest:
                self._span = max(1, span)
                return await _read_trail(found, None if end >= newest else EndPlace(Moment(end + 1)), limit)
            begin, span = Moment(end + 1), max(1, span) * 2

    async def _of_moment(self, page: Sequence[Document], place: EndPlace, most: int) -> Sequence[Document]:
        found = list(page)
        while not _is_all(page, place, most):
            page = await self._store.list_documents(KIND, after=page[-1].name, limit=most)
            found += page
        return found


def _is_all(page: Sequence[Document], place: EndPlace, most: int) -> bool:
    """Return whether nothing that was written since then lies behind the page."""
    return len(page) < most or written_at(page[-1].name) < place.written


def _behind(page: Sequence[Document], place: EndPlace) -> Sequence[Document]:
    found = [each for each in page if written_at(each.name) >= place.written]
    return sorted(found, key=lambda each: (written_at(each.name), each.name))


async def _read_trail(entries: Sequence[Document], rest: EndPlace | None, limit: int) -> ChangeTrail:
    """Read entry by entry, and yield to the loop: one of a large job takes a millisecond."""
    changes = list[Changed]()
    for each in entries:
        read, written = _read(each), written_at(each.name)
        if changes and len(changes) + len(read) > limit and written > changes[-1].written:
            return ChangeTrail(found=changes, rest=EndPlace(written))
        changes += read
        await asyncio.sleep(0)
    return ChangeTrail(found=changes, rest=rest)


def _read(entry: Document) -> Sequence[Changed]:
    try:
        return changed_in(entry.name, entry.text)
    except ValueError as fault:
        log.warning("the entry %r of the audit log can't be read by this version of Tokimori: %s", entry.name, fault)
        return ()
