"""The path `/api/v2/events`: what becomes of runs, and what is changed, as a page or a stream of server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, refusal
from tokimori.api.logs import Followed
from tokimori.api.operation import Operation
from tokimori.api.request_service import ServiceFor, is_still_let_in
from tokimori.api.turns import in_steps
from tokimori.errors import StoreError
from tokimori.model.transitions import RunState
from tokimori.service.events.events import AnyEvent, Event, EventKind, Filters, FoundEvents, MixedEvents
from tokimori.service.events.notice_board import FoundNotices
from tokimori.service.events.notices import LONGEST_WAIT
from tokimori.service.service import Service
from tokimori.service.views.events import FoundEvents as EventsView
from tokimori.service.views.events import event_given
from tokimori.service.views.outside import as_json

STREAM = "text/event-stream"
Block = tuple[bytes, str, bool]
"""A block of a stream, where to go on behind it, and if it is the last."""
Read = Callable[[str | None, float], Awaitable[Block]]
HEARTBEAT = 15.0
"""Seconds after which a stream says that it is still there. So often, too, its sender's leave is asked for again."""
RETRY = 1.0
"""Seconds after which a stream tries again if the store does not answer."""
DEFAULT_STREAMS = 250
_NOW: Final = MappingProxyType({"cache-control": "no-store", "x-accel-buffering": "no"})
"""Heads of a stream: no proxy keeps it, or waits for more of it."""


class EventQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of events: ends of runs, or what `kind` says.

    They are of one job or of those whose ids begin with `job_prefix`; runs end in one of the states. `label`
    (`KEY=VALUE`, or `KEY`), `owner` and `queue` are those of their job as it is then. `after`: the position behind
    which to begin; by default what is to come. `wait`: seconds in which a page waits for its first event.
    """

    kind: EventKind = EventKind.RUNS
    job_id: str | None = None
    job_prefix: str | None = None
    state: tuple[RunState, ...] = ()
    label: tuple[str, ...] = ()
    owner: str | None = None
    queue: str | None = None
    after: str | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0

    @property
    def filters(self) -> Filters:
        """As the service takes them."""
        return Filters(
            job_id=self.job_id,
            job_prefix=self.job_prefix,
            state=self.state,
            label=self.label,
            owner=self.owner,
            queue=self.queue,
        )


class NoticeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of notices: behind a position, by default from now on; `wait`: seconds in which it waits for the first.

    `of`: nouns (`runs`), and things as `jobs/nightly`; others are left out, and ids are those that are named
    here. `every`: so many seconds are between two events of a stream, at least.
    """

    after: str | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0
    of: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    every: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class EventRoutes:
    """The part of the API for events. `most`: the number of streams at a time."""

    def __init__(self, service: ServiceFor, most: int = DEFAULT_STREAMS) -> None:
        self._service = service
        self._most = most
        self._streams = 0

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        others = {503: "as many streams are open as the node takes, or it stops"}
        return [
            Operation(
                "event_read",
                "GET",
                "/api/v2/events",
                self.list,
                EventsView,
                others=others,
                headers=("Last-Event-ID",),
                asked={"kind": "all", "job_prefix": "nightly-", "state": ["failed"]},
            ),
            Operation(
                "event_notices",
                "GET",
                "/api/v2/notices",
                self.notices,
                FoundNotices,
                others=others,
                headers=("Last-Event-ID",),
                asked={"wait": 20},
            ),
        ]

    async def notices(self, request: Request, query: NoticeQuery) -> Response:
        """Return which things have changed, by noun and id: runs that began or ended, jobs, queues, nodes and so on.

        It says that they changed, not what they are now: read them again. A notice without `ids` stands for any of its
        noun, and `reload` for everything: more has changed than the node remembers.

        A client that accepts `text/event-stream` gets a stream, with an event `changed` several times a second at most,
        or `reload`; the header `Last-Event-ID` overrides `after`. It ends when its token expires, and with the node.
        """
        service, after = self._service(request), request.headers.get("last-event-id") or query.after
        if STREAM not in request.headers.get("accept", ""):
            return answer(await service.events.notices(after, query.wait, query.of))
        return await self._stream(request, _reader_of_notices(service, query.of), after, query.every)

    async def list(self, request: Request, query: EventQuery) -> Response:
        """Return ends of runs, in the order in which the store got them, about 500 at most.

        `kind`: `definitions` are changes of jobs, tasks, expectations, calendars, queues, semaphores and nodes, `audit`
        is the whole audit log (for callers who may read it), and `all` are both, beside ends of runs: about 500 each.

        A client that accepts `text/event-stream` gets a stream of events whose ids are their positions: the header
        `Last-Event-ID` overrides `after`. An event may come twice, with the same `id`; where some are not
        kept any more an event `gap` says so. A stream ends when its token is over, and when the node stops.
        """
        service, after = self._service(request), request.headers.get("last-event-id") or query.after
        if STREAM not in request.headers.get("accept", ""):
            found = await _read(service, query, after, query.wait)
            reported: Sequence[Event | AnyEvent] = found.events
            return answer(EventsView.made(found, events=await in_steps(event_given, reported)))
        return await self._stream(request, _reader_of_events(service, query), after)

    async def _stream(self, request: Request, read: Read, after: str | None, every: float = 0.0) -> Response:
        """Return a stream that begins with the present events."""
        text, after, over = await read(after, 0.0)
        if over:
            return refusal(503, "stopping", "the node stops", allowed="to ask another node")
        if self._streams >= self._most:
            message = f"{self._most} streams of events are open already"
            return refusal(503, "too_many", message, allowed="to ask later, or a larger `http.streams` of the node")
        content = _streamed(request, read, text, after, every)
        return Followed(self._counted, content, headers=_NOW, media_type=STREAM)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


async def _read(service: Service, query: EventQuery, after: str | None, wait: float = 0.0) -> FoundEvents | MixedEvents:
    if query.kind is EventKind.RUNS:
        return await service.events.read(after, wait, **query.filters)
    return await service.events.read_all(query.kind, after, wait, **query.filters)


def _reader_of_events(service: Service, query: EventQuery) -> Read:
    async def read(after: str | None, wait: float) -> Block:
        found = await _read(service, query, after, wait)
        return _text(found.events, found.after, gap=found.gap), found.after, found.over

    return read


def _reader_of_notices(service: Service, of: Sequence[str] = ()) -> Read:
    async def read(after: str | None, wait: float) -> Block:
        found = await service.events.notices(after, wait, of)
        return _notice_text(found), found.after, found.over

    return read


async def _streamed(request: Request, read: Read, first: bytes, after: str, every: float = 0.0) -> AsyncIterator[bytes]:
    """Yield a block for each event, and one without an event if nothing came for a while."""
    loop, text, is_over = asyncio.get_running_loop(), first, False
    checked = loop.time()
    while True:
        yield text
        await asyncio.sleep(every)
        try:
            if loop.time() >= checked + HEARTBEAT:
                is_over, checked = not await is_still_let_in(request), loop.time()
            if is_over:
                return
            text, after, is_over = await read(after, HEARTBEAT)
        except StoreError:
            await asyncio.sleep(RETRY)
            text = b": the store does not answer\n\n"


def _notice_text(found: FoundNotices) -> bytes:
    """Return the block of an event `changed` or `reload`; without notices a block with the position alone."""
    at = found.after.encode()
    if found.reload:
        return b"id: %b\nevent: reload\ndata: {}\n\n" % at
    if not found.notices:
        return b": nothing new\nid: %b\n\n" % at
    ids_by_noun = {notice.noun: notice.ids for notice in found.notices}
    return b"id: %b\nevent: changed\ndata: %b\n\n" % (at, as_json(ids_by_noun))


def _text(events: Sequence[Event | AnyEvent], after: str, *, gap: bool) -> bytes:
    """Return the events in the form of the stream. A block without data is no event, and carries the position."""
    blocks = [b'event: gap\ndata: {"event":"gap"}\n\n'] if gap else []
    for event in events:
        data = as_json(event_given(event))
        blocks.append(b"id: %b\nevent: %b\ndata: %b\n\n" % (event.position.encode(), event.what.encode(), data))
    if not events:
        blocks.append(b": nothing new\nid: %b\n\n" % after.encode())
    return b"".join(blocks)
