"""Events as JSON."""

from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.audit_changes import Changed
from tokimori.model.run import asked_by
from tokimori.ports.ends import EndedRun
from tokimori.service.events.events import AnyEvent, Event, FoundEvents, FoundTold
from tokimori.service.views.stamps import stamp


class EventView(Struct, frozen=True, kw_only=True, tag_field="kind", tag="run"):
    """Event of a run. Its `id` is unique; `position` is where to go on behind it.

    `told` is when the store was told of it; the run itself has `ended` before that. `asked_by` is `schedule`,
    `backfill`, `parent` or `request`.
    """

    id: str
    event: str
    position: str
    told: str
    job_id: str
    run_id: str
    state: str
    asked_by: str
    nominal: str
    attempt: int
    node_id: str | None
    started: str | None
    ended: str | None
    exit_code: int | None
    signal: int | None
    error: str | None
    parent_id: str | None


class ChangeView(Struct, frozen=True, kw_only=True, tag_field="kind", tag="change"):
    """Event of a change: `what` (such as `job`, `task`, `expectation`, `queue`, `node`), which one, when, and by whom.

    `id`, `position` and `told` are as in other events. `entry` is the id of what the audit log says of it. `fields` are
    those of a job's definition that are others now. `job_id`: the job that it concerns, if it is one.
    """

    id: str
    event: str
    position: str
    told: str
    at: str
    what: str
    name: str
    job_id: str | None
    by: str | None
    reason: str | None
    fields: Sequence[str]
    entry: str


class EventsView(Struct, frozen=True, kw_only=True):
    """Events in order, and behind which position to go on.

    `gap`: some of those before them are not kept any more. `over`: the node stops, another one tells what follows.
    """

    events: Sequence[EventView | ChangeView]
    after: str
    gap: bool
    over: bool


def event_view(event: Event | AnyEvent) -> EventView | ChangeView:
    """Return the event as JSON shows it."""
    if isinstance(event, AnyEvent) and event.change is not None:
        return _change_view(event, event.change)
    run = cast(EndedRun, event.run)
    return EventView(
        id=event.id,
        event=event.what,
        position=event.position,
        told=format_moment(run.written),
        job_id=run.job_id,
        run_id=run.id,
        state=run.state.value,
        asked_by=asked_by(run.origin),
        nominal=format_moment(run.nominal),
        attempt=run.attempt,
        node_id=run.node_id,
        started=stamp(run.started),
        ended=stamp(run.ended),
        exit_code=run.exit_code,
        signal=run.signal,
        error=run.error,
        parent_id=run.parent_id,
    )


def _change_view(event: AnyEvent, change: Changed) -> ChangeView:
    return ChangeView(
        id=event.id,
        event=event.what,
        position=event.position,
        told=format_moment(change.written),
        at=format_moment(change.at),
        what=change.kind,
        name=change.name,
        job_id=change.job_id,
        by=change.by,
        reason=change.reason,
        fields=change.fields,
        entry=change.entry,
    )


def events_view(found: FoundEvents | FoundTold, views: Sequence[EventView | ChangeView]) -> EventsView:
    """Return the page as JSON shows it."""
    return EventsView(events=views, after=found.after, gap=found.gap, over=found.over)
