"""Reading from one feed, or from two beside each other: earlier events come first."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from heapq import merge
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.audit import Changed
from tokimori.ports.ends import EndedRun
from tokimori.service.events.feed import Feed, Page
from tokimori.service.events.position import Position, before, behind_each, text_of


class FilteredFeed(Struct, frozen=True):
    """A feed, and a test of whether the reader wants one of its events."""

    feed: Feed[Any]
    admits: Callable[[Any], Awaitable[bool]]


class Looked(NamedTuple):
    """Found events, each with the position after it, and the positions at which to go on. See `FoundEvents`."""

    events: Sequence[tuple[EndedRun | Changed, str]]
    after: str
    gap: bool
    over: bool


class _Next(NamedTuple):
    """Next event of a feed (by its number), and the position behind it."""

    item: Any
    source: int
    behind: Position


async def look(sources: Sequence[FilteredFeed], positions: Sequence[Position], seconds: float, most: int) -> Looked:
    """Return the events after these positions, one position a feed.

    Wait for the first event for `seconds`. `most`: the number of pages to read that hold nothing wanted.
    """
    clock = asyncio.get_running_loop().time
    ends, pages, gap = clock() + seconds, 0, False
    while True:
        whole = [await source.feed.page(at) for source, at in zip(sources, positions, strict=True)]
        read = _in_step(sources, whole)
        found = [
            (each.item, at) for each, at in _in_order(read, positions) if await sources[each.source].admits(each.item)
        ]
        positions, pages = [page.position for page in read], pages + 1
        is_none = not any(page.found for page in read)
        gap = gap or any(page.gap for page in read)
        left, over = ends - clock(), sources[0].feed.is_over
        is_all = is_none and left <= 0 and all(at.feed is not None for at in positions)
        if found or gap or over or is_all or pages >= most:
            return Looked(found, text_of(positions), gap, over)
        if is_none and left > 0:
            pages = 0
            without = [number for number, page in enumerate(whole) if not page.found]
            await _wait([sources[each] for each in without], [positions[each] for each in without], left)
        await asyncio.sleep(0)  # what a feed has kept is read at once, and runs have to wait for it


def _in_step(sources: Sequence[FilteredFeed], read: Sequence[Page[Any]]) -> Sequence[Page[Any]]:
    """Return the pages, cut if the shortest unfinished page ends. Later events wait for the others."""
    pairs = zip(sources, read, strict=True)
    reach = [None if source.feed.is_end(page.position) else _reach(page) for source, page in pairs]
    others = [[end for at, end in enumerate(reach) if at != number and end is not None] for number in range(len(read))]
    return [_as_far_as(page, min(ends)) if ends else page for page, ends in zip(read, others, strict=True)]


def _reach(page: Page[Any]) -> Moment:
    """Return the latest moment of the page. The last event may be an earlier one: they come as they appeared."""
    moments: list[Moment] = [page.position.written, *(each.written for each in page.found)]
    return max(moments)


def _as_far_as(page: Page[Any], moment: Moment) -> Page[Any]:
    number = next((at for at, each in enumerate(page.found) if each.written > moment), None)
    if number is None:
        return page
    return replace(page, found=page.found[:number], position=before(page.found, number, page.position))


def _in_order(read: Sequence[Page[Any]], positions: Sequence[Position]) -> Sequence[tuple[_Next, str]]:
    """Return events in order, each feed in its own, with the common position behind each."""
    if len(read) == 1:  # mostly: it has its order
        (page,) = read
        ends = behind_each(page.found, page.position)
        return [(_Next(item, 0, at), str(at)) for item, at in zip(page.found, ends, strict=True)]
    known = list(positions)
    lines = [
        [_Next(item, number, at) for item, at in zip(page.found, behind_each(page.found, page.position), strict=True)]
        for number, page in enumerate(read)
    ]
    found = list[tuple[_Next, str]]()
    for each in merge(*lines, key=lambda each: each.item.written):
        known[each.source] = each.behind
        found.append((each, text_of(known)))
    return found


async def _wait(sources: Sequence[FilteredFeed], positions: Sequence[Position], seconds: float) -> None:
    """Wait until there may be something in one of them."""
    if len(sources) == 1:
        await sources[0].feed.wait(positions[0], seconds)
        return
    waits = [
        asyncio.ensure_future(source.feed.wait(at, seconds)) for source, at in zip(sources, positions, strict=True)
    ]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
