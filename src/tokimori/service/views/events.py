"""Events as JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from tokimori.model.run import asked_by
from tokimori.model.transitions import RunState
from tokimori.service.views.outside import Length, Outside, Sources
from tokimori.service.views.runs import cpu_of

_OF_A_RUN = ("job_id", "state", "nominal", "attempt", "node_id", "started", "ended", "exit_code", "signal", "error")
_OF_A_CHANGE = ("at", "name", "job_id", "by", "reason", "fields", "entry")


class RunEvent(Outside, frozen=True, kw_only=True, tag_field="kind", tag="run"):
    """Event of a run. Its `id` is unique; `position` is the place after it.

    `stored` is the time at which the store received it; the run itself has `ended` before that. `asked_by` is
    `schedule`, `backfill`, `parent` or `request`. `cpu` (seconds) and `memory` (bytes) are what its newest attempt
    cost.
    """

    SOURCES: ClassVar[Sources] = {
        "event": "what",
        "stored": "run.written",
        "run_id": "run.id",
        "asked_by": lambda event: asked_by(event.run.origin),
        **{name: f"run.{name}" for name in (*_OF_A_RUN, "parent_id", "memory")},
        "cpu": lambda event: cpu_of(event.run),
    }

    id: str
    event: str
    position: str
    stored: datetime
    job_id: str
    run_id: str
    state: RunState
    asked_by: str
    nominal: datetime
    attempt: int
    node_id: str | None
    started: datetime | None
    ended: datetime | None
    exit_code: int | None
    signal: int | None
    error: str | None
    parent_id: str | None
    cpu: Length | None
    memory: int | None


class ChangeEvent(Outside, frozen=True, kw_only=True, tag_field="kind", tag="change"):
    """Event of a change: `what` (such as `job`, `task`, `expectation`, `queue`, `node`), which one, when, and by whom.

    `id`, `position` and `stored` are as in other events. `entry` is the id of its entry in the audit log. `fields` are
    the changed fields of a job's definition. `job_id`: the job that it concerns, if any.
    """

    SOURCES: ClassVar[Sources] = {
        "event": "what",
        "stored": "change.written",
        "what": "change.kind",
        **{name: f"change.{name}" for name in _OF_A_CHANGE},
    }

    id: str
    event: str
    position: str
    stored: datetime
    at: datetime
    what: str
    name: str
    job_id: str | None
    by: str | None
    reason: str | None
    fields: Sequence[str]
    entry: str


def event_given(event: Any) -> RunEvent | ChangeEvent:
    """Return the event as programs get it."""
    return (RunEvent if getattr(event, "change", None) is None else ChangeEvent).made(event)


class FoundEvents(Outside, frozen=True, kw_only=True):
    """Events in order, and the position after which to go on.

    `gap`: some earlier events are no longer stored. `over`: the node stops; ask another one for the rest.
    """

    SOURCES: ClassVar[Sources] = {"events": lambda found: [event_given(event) for event in found.events]}

    events: Sequence[RunEvent | ChangeEvent]
    after: str
    gap: bool
    over: bool


class FoundRunEvents(Outside, frozen=True, kw_only=True):
    """Events of runs alone, as in `FoundEvents`."""

    events: Sequence[RunEvent]
    after: str
    gap: bool
    over: bool
