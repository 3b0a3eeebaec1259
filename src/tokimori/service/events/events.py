"""Events as programs and people ask for them."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TypedDict, Unpack

from msgspec import Struct

from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.access_token import Scope
from tokimori.model.ids import JobId
from tokimori.ports.ends import Ended
from tokimori.service.events.feed import Feed
from tokimori.service.events.position import behind_each, position_of
from tokimori.service.finding import EventSearch, JobsOfRuns, SeesId, checked_events
from tokimori.service.given import Span, seconds_of

LONGEST_WAIT = 60.0
"""Seconds for which one call waits at most."""
MOST_PAGES = 40
"""So many pages are looked through in one call; of events that nobody wants it goes on in the next one."""
FOLLOW_WAIT = 20.0


class Filters(TypedDict, total=False):
    """Of which events to tell. `label` (`KEY=VALUE`, or `KEY`), `owner` and `queue` are those of the run's job now."""

    job_id: str | None
    job_prefix: str | None
    state: Collection[str]
    label: Collection[str]
    owner: str | None
    queue: str | None


class Event(Struct, frozen=True, kw_only=True):
    """What happened: a run ended. `id` is that of no other event; `position` is where to go on behind it."""

    id: str
    position: str
    run: Ended

    @property
    def what(self) -> str:
        """What happened, as a word, such as `run.failed`."""
        return f"run.{self.run.state}"


class FoundEvents(Struct, frozen=True, kw_only=True):
    """Events in order, and behind which position to go on.

    `gap`: some of those before them are not kept any more. `over`: the node stops, another one tells the rest.
    """

    events: Sequence[Event]
    after: str
    gap: bool = False
    over: bool = False


class Events:
    """What becomes of runs, for whoever listens. Every method may raise `StoreError`."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def read(self, after: str | None = None, wait: Span = 0.0, **filters: Unpack[Filters]) -> FoundEvents:
        """The events behind the position `after`, by default those to come; it waits for the first so many seconds.

        Where it is another node that is asked, or an event was written late, one may be told of again, with the same
        id; none is left out but where `gap` says so. Raises `InvalidInput`.
        """
        return await self._read(after, wait, filters)

    async def follow(self, after: str | None = None, **filters: Unpack[Filters]) -> AsyncIterator[Event]:
        """The events behind the position `after`, by default those to come, for ever. Raises `Refused` for a gap.

        Who keeps the `position` of the last one goes on behind it later, at any node.
        """
        while True:
            found = await self.read(after, FOLLOW_WAIT, **filters)
            if found.gap:
                raise gone(after)
            for event in found.events:
                yield event
            after = found.after
            if found.over:
                raise Refused("the node stops: another one tells what follows", field="after", value=after)

    async def _read(
        self, after: str | None, wait: Span, filters: Mapping[str, object], sees: SeesId | None = None
    ) -> FoundEvents:
        wanted, seconds = _search(filters), min(LONGEST_WAIT, seconds_of("wait", wait))
        await self._feed.begin()
        position = self._feed.position if after is None else position_of(after, await self._feed.now())
        clock = asyncio.get_running_loop().time
        ends, pages, gap = clock() + seconds, 0, False
        while True:
            page, jobs = await self._feed.page(position), JobsOfRuns(self._feed.job, wanted, sees)
            behind, position, pages = behind_each(page.found, page.position), page.position, pages + 1
            found = [
                Event(id=f"{run.id}.{run.state}", position=str(at), run=run)
                for run, at in zip(page.found, behind, strict=True)
                if _is_wanted(run, wanted) and await jobs.admit(run)
            ]
            gap = gap or page.gap
            left = ends - clock()
            over = self._feed.is_over
            is_all = not page.found and left <= 0 and position.feed is not None
            if found or gap or over or is_all or pages >= MOST_PAGES:
                return FoundEvents(events=found, after=str(position), gap=gap, over=over)
            if not page.found and left > 0:
                pages = 0
                await self._feed.wait(position, left)

    async def _within(self, scope: Scope, after: str | None, wait: Span, filters: Mapping[str, object]) -> FoundEvents:
        """Those of jobs within a scope, as these were a few seconds ago: many may listen."""

        async def sees(job_id: str) -> bool:
            if not scope.has_id(JobId(job_id)) or not scope.queues:
                return scope.has_id(JobId(job_id))
            try:
                return scope.has_queue((await self._feed.job(job_id)).definition.queue)
            except NotFound:
                return False

        return await self._read(after, wait, filters, sees)


def _search(filters: Mapping[str, object]) -> EventSearch:
    """Raises `InvalidInput`."""
    for name in filters.keys() - Filters.__annotations__.keys():
        allowed = ", ".join(Filters.__annotations__)
        raise InvalidInput(f"{name}: there is no such filter", field=name, value=filters[name], allowed=allowed)
    return checked_events(filters)


def gone(after: str | None) -> Refused:
    """The answer to who was away for too long."""
    return Refused(
        f"after: events behind {after!r} are not kept any more",
        field="after",
        value=after,
        allowed="None; what ended meanwhile is in the list of runs",
    )


def _is_wanted(run: Ended, wanted: EventSearch) -> bool:
    return (
        (wanted.job_id is None or run.job_id == wanted.job_id)
        and run.job_id.startswith(wanted.job_prefix or "")
        and (not wanted.state or run.state in wanted.state)
    )
