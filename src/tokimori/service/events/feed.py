"""Feed: one reader of ends, or of changes, for all clients that follow them at this node.

It reads the store while a client waits, and remembers the newest ones. A client that is slow, or comes from another
node, finds there what it has missed, or else reads it from the store: one client at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol

from msgspec import Struct

from tokimori.clock import DAY, SECOND, Clock, Moment
from tokimori.errors import StoreError, TokimoriError
from tokimori.model.ids import RandomBytes
from tokimori.model.job import Job
from tokimori.ports.ends import LATEST, EndPlace
from tokimori.service.events.position import Position, position_at
from tokimori.service.events.tail import JUMP, Record, Record_co, Tail
from tokimori.service.search.jobs import JobOf
from tokimori.service.store_calls import Now

log = logging.getLogger(__name__)

PAGE = 500
"""Number of ends read at once."""
PAGES = 4
"""Number of pages read in one look, so that no burst makes a look take long."""
KEPT = 10_000
"""Number of the newest ends that a node remembers at least, if there were as many."""
HINDSIGHT = 60 * SECOND
"""A feed begins with the ends of the last minute, for readers who come from a node that died."""
REACH = DAY
"""Span for which ends are reported. Earlier ones are a gap."""
EVERY, SOON = 1.0, 0.25
"""Seconds between two looks, and if a look has left something."""
FORGOTTEN = 30.0
"""Seconds without a listener after which a feed begins anew: what was written meanwhile concerns nobody."""
WOKEN_AT_ONCE = 200
"""Number of listeners that go on in one step of the loop, for which runs have to wait."""
MOST_JOBS, FRESH = 10_000, 5.0
"""Number of cached jobs, and seconds for which each is cached."""


Stops = Callable[[], bool]
"""True once the node stops: readers should go to another one."""


class Found(Protocol[Record_co]):
    """Some ends in order, and the place at which to go on; `rest` is None if there were no more. See `Ends`."""

    @property
    def found(self) -> Sequence[Record_co]:
        """In the order of their moments."""
        ...

    @property
    def rest(self) -> EndPlace | None:
        """Behind which the next ones are."""
        ...


class FeedSource(Protocol[Record_co]):
    """Source of a feed: ends of runs, as `Endings` has them, or changes."""

    async def ended_since(self, place: EndPlace, limit: int) -> Found[Record_co]:
        """See `Endings`."""
        ...


class Page(Struct, Generic[Record], frozen=True, kw_only=True):
    """Some events, and the position after them. `gap`: some earlier events are no longer stored."""

    found: Sequence[Record]
    position: Position
    gap: bool = False


class Feed(Generic[Record]):
    """One feed of ends or of changes. `job_of` asks the store for a job."""

    def __init__(
        self, store: FeedSource[Record], clock: Clock, random: RandomBytes, *, now: Now, job_of: JobOf, stops: Stops
    ) -> None:
        self._store = store
        self.now = now
        self._clock = clock
        self._random = random
        self._id = ""
        self._job_of = job_of
        self._stops = stops
        self._tail: Tail[Record] | None = None
        self._ahead: EndPlace | None = None
        self._kept: list[Record] = []
        self._first = 0
        """The number of the first end that is kept."""
        self._since = Moment(0)
        """All ends since then were kept, from the first on."""
        self._reached = Moment(0)
        self._looked = 0.0
        self._looking = asyncio.Lock()
        self._reading = asyncio.Semaphore(1)
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._jobs: dict[str, tuple[float, asyncio.Future[Job]]] = {}

    @property
    def end(self) -> int:
        """Return the number that the next end will get."""
        return self._first + len(self._kept)

    @property
    def position(self) -> Position:
        """Return the position after all known ends."""
        return Position(written=self._reached, feed=self._id, number=self.end)

    @property
    def is_over(self) -> bool:
        """Return whether the feed has ended."""
        return self._stops()

    def is_end(self, position: Position) -> bool:
        """Return whether nothing is known behind the position."""
        return position.feed == self._id and position.number == self.end

    async def begin(self) -> None:
        """Read the newest ends. Raises `StoreError`."""
        for _ in range(KEPT // PAGE):
            async with self._looking:
                if (
                    self._tail is not None
                    and self._ahead is None
                    and self._clock.monotonic() < self._looked + 2 * EVERY
                ):
                    return
                await self._read_store()

    async def page(self, position: Position) -> Page[Record]:
        """Return the next events after the position; none if there are none yet. Raises `StoreError`."""
        if position.feed != self._id and position.written > self._reached + JUMP:  # the clock was set back since
            position = Position(written=self._reached)
        number = self._number_of(position)
        if number is None:
            return await self._page_of_store(position.place)
        found = self._kept[number - self._first :][:PAGE]
        number += len(found)
        reached = self._reached if number == self.end else found[-1].written
        return Page(found=found, position=Position(written=reached, feed=self._id, number=number))

    def _number_of(self, position: Position) -> int | None:
        """Return the number of the first end in memory unknown to a reader here; None if older ones may be missing."""
        if position.feed == self._id and self._first <= position.number <= self.end:
            return position.number
        if position.place.written <= self._since:
            return None
        at = (n for n, each in enumerate(self._kept) if each.written >= position.place.written)
        return self._first + next(at, len(self._kept))

    async def _page_of_store(self, place: EndPlace) -> Page[Record]:
        """Return a page from the store, up to the moment before which no further end can appear."""
        now = await self.now()
        bound, oldest = Moment(now - LATEST), Moment(now - REACH)
        gap = place.written < oldest
        async with self._reading:
            ends = await self._store.ended_since(EndPlace(oldest) if gap else place, PAGE)
        found = [each for each in ends.found if each.written < bound]
        rest = ends.rest if len(found) == len(ends.found) else None
        return Page(found=found, position=position_at(rest or max(place, EndPlace(bound))), gap=gap)

    async def wait(self, position: Position, seconds: float) -> None:
        """Wait until there may be events after the position, for `seconds` at most."""
        if position.feed != self._id:
            await asyncio.sleep(min(EVERY, seconds))
            return
        if position.number != self.end or self.is_over:
            return
        news = asyncio.get_running_loop().create_future()
        self._waiting[news] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_again(), name="tokimori-events")
        try:
            await asyncio.wait({news}, timeout=seconds)
        finally:
            del self._waiting[news]
            if not self._waiting and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _look_again(self) -> None:
        """Read the store while a caller waits. While the store does not answer, all callers wait."""
        away = False
        while True:
            before, pause = self.end, EVERY if self._ahead is None or away else SOON
            await asyncio.sleep(max(0.0, self._looked + pause - self._clock.monotonic()))
            if self.is_over:
                break
            try:
                async with self._looking:
                    await self._read_store()
                away = False
            except TokimoriError as fault:
                log.log(logging.DEBUG if away else logging.WARNING, "events are delayed: %s", fault)
                away = True
            except Exception:
                log.exception("events are delayed")
            if self.end != before:
                await wake_all(self._waiting)
        await wake_all(self._waiting)

    async def _read_store(self) -> None:
        at, last = self._clock.monotonic(), self._looked
        self._looked = at
        now, tail = await self.now(), self._tail
        if tail is None or at >= last + FORGOTTEN or not tail.look(now):
            tail = self._start(now)
        place = self._ahead or tail.near
        is_whole = place == tail.final
        for _ in range(PAGES):
            ends = await self._store.ended_since(place, PAGE)
            self._append(tail.fresh(ends.found))
            self._ahead = ends.rest
            if ends.rest is None:
                break
            place = ends.rest
        self._reached = now if self._ahead is None else max(self._reached, place.written)
        if is_whole and self._ahead is None:
            tail.settle(EndPlace(tail.bound))
        else:
            await self._look_back(tail)

    async def _look_back(self, tail: Tail[Record]) -> None:
        """Read the last seconds once more, for ends that slow writers have added."""
        for _ in range(PAGES):
            if tail.final.written >= tail.bound:
                return
            ends = await self._store.ended_since(tail.final, PAGE)
            sure = [each for each in ends.found if each.written < tail.bound]
            self._append(tail.fresh(sure))
            is_all = ends.rest is None or len(sure) < len(ends.found)
            tail.settle(EndPlace(tail.bound) if is_all or ends.rest is None else ends.rest)

    def _start(self, now: Moment) -> Tail[Record]:
        """Start anew from the last minute on. Numbers of the old feed mean nothing to this one."""
        self._id, self._first, self._kept, self._ahead = self._random(4).hex(), 0, [], None
        self._since = self._reached = Moment(max(0, now - HINDSIGHT))
        self._tail = Tail(self._since)
        self._tail.look(now)
        return self._tail

    def _append(self, fresh: Sequence[Record]) -> None:
        self._kept += fresh
        if len(self._kept) >= 2 * KEPT:
            self._since = max([self._since, *(each.written for each in self._kept[:KEPT])])
            del self._kept[:KEPT]
            self._first += KEPT

    async def job(self, job_id: str) -> Job:
        """Return the job as it was a few seconds ago. Raises `NotFound` if there is none, and `StoreError`.

        All subscribers wake together: one of them asks the store, and the others wait for its answer.
        """
        at, known = self._clock.monotonic(), self._jobs.get(job_id)
        if known is None or at >= known[0] + FRESH:
            if len(self._jobs) >= MOST_JOBS:
                self._jobs.clear()
            known = self._jobs[job_id] = (at, asyncio.ensure_future(self._job_of(job_id)))
        try:
            return await asyncio.shield(known[1])
        except StoreError:
            self._jobs.pop(job_id, None)
            raise


async def wake_all(listeners: Iterable[asyncio.Future[None]]) -> None:
    """Let these listeners go on, some at a time."""
    waiting = list(listeners)
    for first in range(0, len(waiting), WOKEN_AT_ONCE):
        for news in waiting[first : first + WOKEN_AT_ONCE]:
            if not news.done():
                news.set_result(None)
        await asyncio.sleep(0)
