"""Runs as JSON: their attempts, their output, and the backfills that made them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from msgspec import UNSET, Struct, UnsetType, field

from tokimori.clock import to_datetime
from tokimori.model.attempt_notes import given_to
from tokimori.model.backfill import LeftOutReason
from tokimori.model.cause import cause_id, cause_in
from tokimori.model.dependents import On
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Run as InnerRun
from tokimori.model.run import Step, short_id, shown_due
from tokimori.model.transitions import RunState
from tokimori.service.definitions.requests import Became
from tokimori.service.reasons import Reason, waits_for
from tokimori.service.search.jobs import Paged
from tokimori.service.views.outside import Length, Outside, Sources, maybe

_OF_AN_ATTEMPT = ("number", "outcome", "node_id", "pid", "started", "ended", "exit_code", "signal", "error")
_DETAILS = (
    "then",
    "tzdata",
    "worker",
    "checkpoint",
    "retry_of",
    "traceparent",
    "requested_by",
    "unique",
    "beside",
    "expires",
)


def cpu_of(it: Any) -> Length | None:
    """Return the time that processors worked for a run or an attempt."""
    return None if it.cpu is None else Length(microseconds=it.cpu)


class AttemptDetails(Outside, frozen=True, kw_only=True):
    """An attempt; its `outcome` is `running` until it ends.

    `cpu` is the time that processors worked for it, in seconds, and `memory` the bytes that it had at its peak: a
    command's with its children, of which the largest process counts. They are null if that can't be known.
    """

    SOURCES: ClassVar[Sources] = {
        "cpu": lambda details: cpu_of(details.attempt),
        "memory": "attempt.memory",
        **{name: f"attempt.{name}" for name in _OF_AN_ATTEMPT},
    }

    number: int
    outcome: str
    node_id: str | None
    host: str | None
    pid: int | None
    started: datetime | None
    ended: datetime | None
    exit_code: int | None
    signal: int | None
    error: str | None
    cpu: Length | None
    memory: int | None


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of an attempt, as it reported last: a fraction from 0 to 1, and a text."""

    fraction: float
    text: str | None


def _progress(run: InnerRun) -> Progress | None:
    fraction = run.details.progress
    return None if fraction is None else Progress(fraction=fraction, text=run.details.progress_text)


def _cause_id(run: InnerRun) -> str | None:
    cause = cause_in(run)
    return None if cause is None else cause_id(cause)


class RunApproval(Outside, frozen=True, kw_only=True):
    """A question if a run may begin, which the role `approver` answers, and the answer; `approved` null: none yet.

    Without one it counts as refused at `until`. With `four_eyes` it is not approved by `requested_by`.
    """

    approver: str
    four_eyes: bool
    asked: datetime
    until: datetime | None
    approved: bool | None
    by: str | None
    at: datetime | None
    reason: str | None


class Run(Outside, frozen=True, kw_only=True):
    """A run. `short_id` is the end of its id, which paths take for it.

    `cancel` is the reason of an unfinished order to end. `waits_for` says in words why a blocked run waits. `progress`
    is the last report of the newest attempt, and `checkpoint` (JSON) is passed to the next one; lists have it only
    after the attempt's end. `retry_of` is the run that this one repeats, `requested_by` the requester, and
    `traceparent` the requester's place in a trace. `unique` says for how long it holds its key, `beside` the run that
    held it when this one repeated another. It does not begin after `expires`, or before its `approval`. `cause` is that
    of a failure, and `cause_id` names it in filters. `cpu` (seconds) and `memory` (bytes) are the cost of the newest
    attempt. `then` are the steps that were requested to follow it, and `spawned` is the number of runs for whose ends
    it waits, or waited.
    """

    SOURCES: ClassVar[Sources] = {
        "short_id": lambda run: short_id(run.id),
        "payload": given_to,
        "due": lambda run: to_datetime(shown_due(run)),
        "spawned": lambda run: run.details.spawned and run.details.spawned.count,
        "waits_for": waits_for,
        "progress": _progress,
        "cause": cause_in,
        "cause_id": _cause_id,
        "cpu": cpu_of,
        "approval": lambda run: run.details.approval and RunApproval.made(run.details.approval),
        **{name: f"details.{name}" for name in _DETAILS},
    }

    id: RunId
    short_id: str
    job_id: JobId
    origin: str
    state: RunState
    nominal: datetime
    due: datetime
    priority: int
    created: datetime
    payload: str | None
    attempt: int
    failures: int
    lost: int
    node_id: str | None
    pid: int | None
    started: datetime | None
    ended: datetime | None
    exit_code: int | None
    signal: int | None
    error: str | None
    cancel: str | None
    tzdata: str | None
    worker: str | None
    parent_id: RunId | None
    result: str | None
    concurrency_key: str | None
    then: tuple[Step, ...]
    spawned: int | None
    waits_for: str | None
    progress: Progress | None
    checkpoint: str | None
    retry_of: RunId | None
    traceparent: str | None
    requested_by: str | None
    unique: str | None
    beside: RunId | None
    expires: datetime | None
    approval: RunApproval | None
    cause: str | None
    cause_id: str | None
    cpu: Length | None
    memory: int | None


class ParentRun(Outside, frozen=True, kw_only=True):
    """A run after whose end another one was made. `left_out` is the command that shows a result that is not here."""

    id: RunId
    job_id: JobId
    state: RunState
    ended: datetime | None
    result: str | None
    left_out: str | None


class FamilyMember(Outside, frozen=True, kw_only=True):
    """A run of a family, or one `to_come`, whose `state` is waiting, or skipped if it is never made.

    `id` is null for a run of a dependent job that is to come: its `name` is that of the job, and else the id. It
    follows the end `on` of those that `after` names: all (`joins`), or each.
    """

    SOURCES: ClassVar[Sources] = {
        "id": lambda each: each.name if each.name != each.job_id else None,
        "to_come": lambda each: each.run is None,
        "started": lambda each: maybe(to_datetime)(each.run and each.run.started),
        "ended": lambda each: maybe(to_datetime)(each.run and each.run.ended),
    }

    name: str
    id: RunId | None
    job_id: JobId
    state: RunState
    to_come: bool
    started: datetime | None
    ended: datetime | None
    after: tuple[str, ...]
    on: On
    joins: int


class RunDetails(Run, frozen=True, kw_only=True):
    """A run with its newest `attempts`; `attempts_left_out` counts earlier ones, if there are any.

    `job_deleted`: its job is gone. `why` (the reasons that keep it from starting) is present only on request.
    """

    attempts: tuple[AttemptDetails, ...]
    attempts_left_out: int | UnsetType = UNSET
    why: tuple[Reason, ...] | UnsetType = UNSET
    job_deleted: bool

    @classmethod
    def made(cls, value: Any, /, **more: Any) -> Self:
        """Return the run of such details."""
        left_out = value.attempts_left_out or UNSET
        found = {"attempts": value.attempts, "attempts_left_out": left_out, "job_deleted": value.is_job_deleted}
        return super().made(value.run, **found, **more)


class RunSummary(Run, frozen=True, kw_only=True):
    """A run as a list shows it: with the time zone of its job, and if that is gone."""

    time_zone: str
    job_deleted: bool

    @classmethod
    def made(cls, value: Any, /, **more: Any) -> Self:
        """Return the run of such a summary."""
        return super().made(value.run, time_zone=value.time_zone, job_deleted=value.is_job_deleted, **more)


class FoundRuns(Paged[Run], Outside, frozen=True, kw_only=True):
    """Runs, newest first. `next`: there may be more before this id; None: that is all."""

    runs: Sequence[Run]
    next: RunId | None
    looked: int


class RequestedRun(Run, frozen=True, kw_only=True):
    """The run of a request, and the outcome of the request."""

    became: Became

    @classmethod
    def made(cls, value: Any, /, **more: Any) -> Self:
        """Return the run of such an answer."""
        return super().made(value.run, became=value.became, **more)


class LeftOut(Outside, frozen=True, kw_only=True):
    """An occurrence for which a backfill makes no run, with the run that it has already."""

    SOURCES: ClassVar[Sources] = {
        "run_id": lambda found: found.run and found.run.id,
        "state": lambda found: found.run and found.run.state,
    }

    nominal: datetime
    reason: LeftOutReason
    run_id: str | None
    state: RunState | None


class Backfill(Outside, frozen=True, kw_only=True):
    """The state of a backfill: `missing` runs are still to be made, `runs` counts the runs that were made, by state."""

    SOURCES: ClassVar[Sources] = {"job_id": "job.id", "runs": lambda found: dict(sorted(found.states.items()))}

    job_id: str
    first: datetime = field(name="from")
    last: datetime = field(name="to")
    missing: tuple[datetime, ...]
    active: int
    runs: dict[RunState, int]
    left_out: tuple[LeftOut, ...]


class OutputText(Outside, frozen=True, kw_only=True):
    """The output of an attempt as UTF-8 text: `size` bytes in all, of which the beginning and the end are stored."""

    SOURCES: ClassVar[Sources] = {
        "head": lambda output: output.head.decode(errors="replace"),
        "tail": lambda output: output.tail.decode(errors="replace"),
    }

    run_id: str
    attempt: int
    size: int
    head: str
    tail: str


class Mute(Outside, frozen=True, kw_only=True):
    """A cause of failures that is muted until then, by whom and why."""

    id: str
    cause: str
    since: datetime
    until: datetime
    by: str | None
    reason: str | None


class FailureCause(Outside, frozen=True, kw_only=True):
    """Failures with one cause, which `id` names. `sample` is the newest run, and `line` what its error says last.

    `muted` is there while the cause is muted.
    """

    id: str
    cause: str
    count: int
    jobs: tuple[str, ...]
    more_jobs: int
    first: datetime
    last: datetime
    histogram: tuple[int, ...]
    sample: str
    line: str
    muted: Mute | None


class FoundFailures(Outside, frozen=True, kw_only=True):
    """Failures of a period by cause. `looked`: how many failed runs were read; `next`: go on `before` this one."""

    causes: tuple[FailureCause, ...]
    since: datetime
    until: datetime
    count: int
    looked: int
    more_causes: int
    next: str | None
