"""Events as programs and people ask for them."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from enum import StrEnum
from typing import TypedDict, Unpack

from msgspec import Struct

from tokimori.clock import Clock, Moment
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import EVERYTHING, Role, Scope
from tokimori.model.audit import Changed
from tokimori.model.ids import RandomBytes
from tokimori.ports.ends import EndedRun
from tokimori.ports.store import Store
from tokimori.service.access import OPEN, Sight, jobs_within, sight_of_runs
from tokimori.service.events.feed import Feed, Stops
from tokimori.service.events.merging import FilteredFeed, Looked, look
from tokimori.service.events.notice_board import NoticeBoard
from tokimori.service.events.notices import FOLLOW_WAIT, Notices, is_seen, waited
from tokimori.service.events.position import BETWEEN, Position, both_of
from tokimori.service.events.trail import Trail
from tokimori.service.operation import Inside, M, operation, stream
from tokimori.service.search.jobs import EventSearch, JobOf, JobsOfRuns, searched_events
from tokimori.service.store_calls import Now
from tokimori.service.validation import Span, chosen
from tokimori.service.views.events import FoundEvents as EventsView
from tokimori.service.views.events import FoundRunEvents, RunEvent, event_given

MOST_PAGES = 40
"""Number of pages looked through in one call; the next call goes on if nobody wants what was found."""


class EventKind(StrEnum):
    """Kinds of events."""

    RUNS = "runs"
    """Ends of runs."""
    DEFINITIONS = "definitions"
    """Changes of jobs, tasks, expectations, calendars, queues, semaphores and nodes."""
    AUDIT = "audit"
    """Whatever is in the audit log: those changes, and what was ordered beside them. For who may read that log."""
    ALL = "all"
    """Ends of runs, and all changes of which somebody may know."""


class Filters(TypedDict, total=False):
    """Filters of events. `label` (`KEY=VALUE`, or `KEY`), `owner` and `queue` are those of the run's job now."""

    job_id: str | None
    job_prefix: str | None
    state: Collection[str]
    label: Collection[str]
    owner: str | None
    queue: str | None


class Event(Struct, frozen=True, kw_only=True):
    """Event of a run that ended. `id` is unique; `position` is the place after it."""

    id: str
    position: str
    run: EndedRun

    @property
    def what(self) -> str:
        """Return the event's type, such as `run.failed`."""
        return f"run.{self.run.state}"

    @property
    def written(self) -> Moment:
        """Return the moment at which the store got it."""
        return self.run.written


class AnyEvent(Struct, frozen=True, kw_only=True):
    """Event of a run that ended (`run`), or of a change (`change`). Else as `Event`."""

    id: str
    position: str
    run: EndedRun | None = None
    change: Changed | None = None

    @property
    def what(self) -> str:
        """Return the event's type, such as `run.failed` and `job.paused`."""
        if self.run is not None:
            return f"run.{self.run.state}"
        return self.change.event if self.change else ""

    @property
    def written(self) -> Moment:
        """Return the moment at which the store got it."""
        item = self.run or self.change
        return Moment(0) if item is None else item.written


class FoundEvents(Struct, frozen=True, kw_only=True):
    """Events in order, and the position after which to go on.

    `gap`: some earlier events are no longer stored. `over`: the node stops; ask another one for the rest.
    """

    events: Sequence[Event]
    after: str
    gap: bool = False
    over: bool = False


class MixedEvents(Struct, frozen=True, kw_only=True):
    """Events of several kinds, as in `FoundEvents`."""

    events: Sequence[AnyEvent]
    after: str
    gap: bool = False
    over: bool = False


class Events(Notices[M]):
    """Events of runs and changes. Every method may raise `StoreError`."""

    noun, word = "events", "event"

    def __init__(self, runs: Feed[EndedRun], changes: Feed[Changed], board: NoticeBoard) -> None:
        self._feed = runs
        self._changes = changes
        self._notice_board(board, runs.job)

    @operation(Role.READ, OPEN, gives=FoundRunEvents.made)
    async def read(self, after: str | None = None, wait: Span = 0.0, **filters: Unpack[Filters]) -> FoundEvents:
        """Return the events of runs after the position `after`, by default only new ones.

        Wait for the first one for `wait` seconds. An event may come twice, with the same id, if another node is asked
        or the event was written late. None is left out unless `gap` is set. Raises `InvalidInput`.
        """
        return await self._read(after, wait, filters)

    @read.within
    async def _read_within(
        self, sight: Sight, after: str | None = None, wait: Span = 0.0, **filters: Unpack[Filters]
    ) -> FoundEvents:
        return await self._read(after, wait, filters, sight.scope)

    @operation(Role.READ, OPEN, by_role=True, gives=EventsView.made)
    async def read_all(
        self, kind: str = EventKind.ALL, after: str | None = None, wait: Span = 0.0, **filters: Unpack[Filters]
    ) -> MixedEvents:
        """Return events as `read` does: those of runs, of changes, or of both (`EventKind`).

        Raises `InvalidInput`, and `Forbidden` for `audit` if the caller may not read the audit log.
        """
        return await self._read_all(kind, after, wait, filters)

    @read_all.within
    async def _read_all_within(
        self,
        sight: Sight,
        kind: str = EventKind.ALL,
        after: str | None = None,
        wait: Span = 0.0,
        **filters: Unpack[Filters],
    ) -> MixedEvents:
        """Return events in scope. Some events of the audit log need the right to read it."""
        of_audit = sight.role is Role.ADMIN and sight.scope.is_everything
        return await self._read_all(kind, after, wait, filters, sight.scope, of_audit=of_audit)

    @stream(RunEvent.made)
    async def follow(self, after: str | None = None, **filters: Unpack[Filters]) -> AsyncIterator[Event]:
        """Yield the events of runs after the position `after`, by default only new ones, without end.

        A caller that stores the `position` of the last one can go on after it later, at any node. Raises `Refused` for
        a gap.
        """
        while True:
            found = await self.read(after, FOLLOW_WAIT, **filters)
            _check_whole(found, after)
            for event in found.events:
                yield event
            after = found.after
            _check_goes_on(found)

    @stream(event_given)
    async def follow_all(
        self, kind: str = EventKind.ALL, after: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncIterator[AnyEvent]:
        """Yield events as `follow` does: those of runs, of changes, or of both (`EventKind`)."""
        while True:
            found = await self.read_all(kind, after, FOLLOW_WAIT, **filters)
            _check_whole(found, after)
            for event in found.events:
                yield event
            after = found.after
            _check_goes_on(found)

    async def _read(
        self, after: str | None, wait: Span, filters: Mapping[str, object], scope: Scope = EVERYTHING
    ) -> FoundEvents:
        """Return events of jobs in scope, as these were a few seconds ago: many may listen."""
        found = await self._look(EventKind.RUNS, after, wait, filters, scope, of_audit=False)
        events = [
            Event(id=_id_of(item), position=at, run=item) for item, at in found.events if isinstance(item, EndedRun)
        ]
        return FoundEvents(events=events, after=found.after, gap=found.gap, over=found.over)

    async def _read_all(
        self,
        kind: str,
        after: str | None,
        wait: Span,
        filters: Mapping[str, object],
        scope: Scope = EVERYTHING,
        *,
        of_audit: bool = True,
    ) -> MixedEvents:
        """Read events of both kinds. `of_audit`: those that only the audit log has, too."""
        wanted = chosen(EventKind, "kind", kind)
        if wanted is EventKind.AUDIT and not of_audit:
            raise Forbidden(
                "kind: your token may not read the audit log",
                field="kind",
                value=kind,
                allowed="definitions, or a token of the role admin that is of no jobs or queues alone",
            )
        is_wanted = of_audit and wanted is not EventKind.DEFINITIONS
        found = await self._look(wanted, after, wait, filters, scope, of_audit=is_wanted)
        return MixedEvents(
            events=[_event_of(item, at) for item, at in found.events], after=found.after, gap=found.gap, over=found.over
        )

    async def _look(
        self,
        kind: EventKind,
        after: str | None,
        wait: Span,
        filters: Mapping[str, object],
        scope: Scope,
        *,
        of_audit: bool,
    ) -> Looked:
        wanted, seconds = _search(filters), waited(wait)
        runs, changes = kind in _OF_RUNS, kind is not EventKind.RUNS
        sources: list[FilteredFeed] = []
        job_of = jobs_within(scope, self._feed.job)
        jobs = JobsOfRuns(job_of, wanted, None if scope.is_everything else sight_of_runs(scope, self._feed.job))

        async def admits_run(run: EndedRun) -> bool:
            return _is_wanted(run, wanted) and await jobs.admit(run)

        async def admits_change(change: Changed) -> bool:
            return (
                (change.is_definition or of_audit)
                and _is_of(change, wanted)
                and is_seen(change, scope)
                and await _has_traits(change, wanted, job_of)
            )

        sources += [FilteredFeed(self._feed, admits_run)] if runs else []
        sources += [FilteredFeed(self._changes, admits_change)] if changes else []
        for source in sources:
            await source.feed.begin()
        positions = [source.feed.position for source in sources]
        if after is not None:
            positions = _positions(after, await self._feed.now(), runs=runs, changes=changes)
        return await look(sources, positions, seconds, MOST_PAGES)


def events_of(
    store: Store, clock: Clock, random: RandomBytes, *, now: Now, job_of: JobOf, stops: Stops
) -> Events[Inside]:
    """Return the events of a store: ends of runs, and changes."""
    return Events(
        Feed(store, clock, random, now=now, job_of=job_of, stops=stops),
        Feed(Trail(store), clock, random, now=now, job_of=job_of, stops=stops),
        NoticeBoard(store, random, now=now, stops=stops),
    )


async def _has_traits(change: Changed, wanted: EventSearch, job_of: JobOf) -> bool:
    """Return whether the event's job, as it is now, has the wanted traits."""
    if not wanted.asks_for_jobs:
        return True
    if change.job_id is None:
        return False
    try:
        return wanted.are_of(await job_of(change.job_id))
    except NotFound:
        return False


_OF_RUNS = (EventKind.RUNS, EventKind.ALL)


def _positions(after: str, now: Moment, *, runs: bool, changes: bool) -> list[Position]:
    """Return the positions at which to begin in each feed."""
    first, second = both_of(after, now)
    if not runs and BETWEEN not in after:
        return [first]
    return [*([first] if runs else []), *([second] if changes else [])]


def _id_of(item: EndedRun | Changed) -> str:
    return f"{item.id}.{item.state}" if isinstance(item, EndedRun) else item.id


def _event_of(item: EndedRun | Changed, at: str) -> AnyEvent:
    if isinstance(item, EndedRun):
        return AnyEvent(id=_id_of(item), position=at, run=item)
    return AnyEvent(id=item.id, position=at, change=item)


def _check_whole(found: FoundEvents | MixedEvents, after: str | None) -> None:
    if found.gap:
        raise gone(after)


def _check_goes_on(found: FoundEvents | MixedEvents) -> None:
    if found.over:
        raise Refused("the node stops: ask another one for later events", field="after", value=found.after)


def _search(filters: Mapping[str, object]) -> EventSearch:
    """Check the arguments. Raises `InvalidInput`."""
    for name in filters.keys() - Filters.__annotations__.keys():
        allowed = ", ".join(Filters.__annotations__)
        raise InvalidInput(f"{name}: there is no such filter", field=name, value=filters[name], allowed=allowed)
    return searched_events(filters)


def gone(after: str | None) -> Refused:
    """Return the answer for a reader who was away for too long."""
    return Refused(
        f"after: events behind {after!r} are not kept any more",
        field="after",
        value=after,
        allowed="None; what ended meanwhile is in the list of runs",
    )


def _is_wanted(run: EndedRun, wanted: EventSearch) -> bool:
    return (
        (wanted.job_id is None or run.job_id == wanted.job_id)
        and run.job_id.startswith(wanted.job_prefix or "")
        and (not wanted.state or run.state in wanted.state)
    )


def _is_of(change: Changed, wanted: EventSearch) -> bool:
    """Return whether it concerns the wanted job, if one is wanted."""
    if wanted.job_id is None and wanted.job_prefix is None:
        return True
    job_id = change.job_id
    return (
        job_id is not None
        and job_id.startswith(wanted.job_prefix or "")
        and (wanted.job_id is None or job_id == wanted.job_id)
    )
