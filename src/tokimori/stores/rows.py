"""From rows to values and back: the only place that knows the order of columns."""

import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from tokimori.model.document import Document
from tokimori.model.encoding import encode_definition, stored_definition
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job, JobState, limit_of, most_active, units_here
from tokimori.model.lanes import head_start
from tokimori.model.pause import Pause
from tokimori.model.run import Attempt, Output, Run, Skip, SkipReason, decode_details, encode_details
from tokimori.model.target import Unreadable
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.semaphores import Permit
from tokimori.ports.working import Claimed
from tokimori.stores.rules.lanes import lane_for

Row = tuple[Any, ...]

JOB = (
    'id, incarnation, version, definition, state, reason, "by", created, updated, anchor, fired_through, next_due, '
    "runs_remaining, tzdata, days_off"
)
JOB_STAMPS = "max_running, lane, most_active, semaphores, max_per_key, priority, head_start, concurrency_key"
"""What the store keeps of the definition in columns of its own."""

RUN = (
    'id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt, '
    'failures, lost, token, node_id, pid, started, ended, exit_code, "signal", error, cancel, details, '
    "parent_id, root, result, concurrency_key, blocked_on"
)
BIRTH = (
    'id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, details, '
    "parent_id, root, concurrency_key"
)
"""What a run is born with; the other columns are as yet empty."""
SETTLED = "settled_by, settled_token"
PERMIT = 'id, semaphore, node_id, run_id, weight, "rank", token, since'
ATTEMPT = 'run_id, number, token, node_id, outcome, pid, started, ended, exit_code, "signal", error'
OUTPUT = "run_id, attempt, size, head, tail"
SKIP = "first, last, count, reason"
TOMBSTONE = "version, definition, created, deleted"
"""What is kept of a deleted job besides its id."""
DOCUMENT = "kind, name, text, version"
PAUSE = 'queue, since, reason, "by"'
NODE = 'id, host, boot_id, pid, labels, concurrency, version, started, beat, state, "left"'

RUN_COLUMNS = RUN.count(",") + 1
JOB_COLUMNS = JOB.count(",") + 1
_RUN_STATES = {str(state): state for state in RunState}


def prefixed(columns: str, table: str) -> str:
    """The columns as those of this table."""
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


def marks(columns: str) -> str:
    """A question mark for each column."""
    return ", ".join("?" for _ in columns.split(", "))


def _names(columns: str) -> list[str]:
    """The fields of the value that the columns hold."""
    return columns.replace('"', "").split(", ")


def job_of(row: Row) -> Job:
    """A job from the columns `JOB`."""
    (id_, incarnation, version, definition, state, reason, by, created, updated, anchor, fired, next_due, *rest) = row
    runs_remaining, tzdata, days_off = rest
    return Job(
        id=id_,
        incarnation=incarnation,
        version=version,
        definition=stored_definition(definition),
        state=JobState(state),
        reason=reason,
        by=by,
        created=created,
        updated=updated,
        anchor=anchor,
        fired_through=fired,
        next_due=next_due,
        runs_remaining=runs_remaining,
        tzdata=tzdata,
        days_off=days_off,
    )


def tombstone_of(job_id: JobId, row: Row) -> Job:
    """What is left of a deleted job, from its incarnation and the columns `TOMBSTONE`."""
    incarnation, version, definition, created, deleted = row
    return Job(
        id=job_id,
        incarnation=incarnation,
        version=version,
        definition=stored_definition(definition),
        state=JobState.DELETED,
        created=created,
        updated=deleted,
        anchor=created,
        fired_through=deleted,
    )


def definition_of(text: str | None) -> Definition | None:
    """The definition with which a node works on a claimed run: none where the job is gone, or can't be read."""
    found = None if text is None else stored_definition(text)
    return None if found is None or isinstance(found.target, Unreadable) else found


def job_row(job: Job) -> Row:
    """The columns `JOB` and `JOB_STAMPS` of a job."""
    return (
        job.id,
        job.incarnation,
        job.version,
        encode_definition(job.definition).decode(),
        job.state,
        job.reason,
        job.by,
        job.created,
        job.updated,
        job.anchor,
        job.fired_through,
        job.next_due,
        job.runs_remaining,
        job.tzdata,
        job.days_off,
        limit_of(job.definition),
        lane_for(job),
        most_active(job.definition),
        semaphores_column(job.definition),
        job.definition.max_running_per_key,
        job.definition.priority,
        head_start(job.definition.priority),
        job.definition.concurrency_key,
    )


def semaphores_column(definition: Definition) -> str | None:
    """`[[name, weight], …]` by name, as JSON; None where the job wants none, or they are in another store."""
    found = units_here(definition)
    return json.dumps(found) if found else None


def run_of(row: Row) -> Run:
    """A run from the columns `RUN`."""
    (id_, job_id, incarnation, origin, nominal, due, state, priority, rank, lane, created, payload, *rest) = row
    attempt, failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, *rest = rest
    details, parent_id, root, result, concurrency_key, blocked_on = rest
    return Run(
        id=id_,
        job_id=job_id,
        incarnation=incarnation,
        origin=origin,
        nominal=nominal,
        due=due,
        state=_RUN_STATES[state],
        priority=priority,
        rank=rank,
        lane=lane,
        created=created,
        payload=payload,
        attempt=attempt,
        failures=failures,
        lost=lost,
        token=token,
        node_id=node_id,
        pid=pid,
        started=started,
        ended=ended,
        exit_code=exit_code,
        signal=signal,
        error=error,
        cancel=cancel,
        details=decode_details(details),
        parent_id=parent_id,
        root=root,
        result=result,
        concurrency_key=concurrency_key,
        blocked_on=blocked_on,
    )


def run_values(names: Sequence[str]) -> Callable[[Run], Row]:
    """What takes these columns, `details` among them, from a run, in this order."""
    values, place = attrgetter(*names), names.index("details")

    def row(run: Run) -> Row:
        found = values(run)
        return *found[:place], encode_details(found[place]), *found[place + 1 :]

    return row


run_row = run_values(_names(RUN))
"""The columns `RUN` of a run."""


def all_claimed(rows: Sequence[Row]) -> list[Claimed]:
    """Runs as their owner gets them, from the columns `RUN` and the definition, which many of them share."""
    definitions: dict[str | None, Definition | None] = {None: None}
    claimed = []
    for row in rows:
        run, text = run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS]
        if text not in definitions:
            definitions[text] = definition_of(text)
        claimed.append(Claimed(run=run, definition=definitions[text]))
    return claimed


def attempt_of(row: Row) -> Attempt:
    """An attempt from the columns `ATTEMPT`."""
    return Attempt(**dict(zip(_names(ATTEMPT), row, strict=True)))


def attempt_row(attempt: Attempt) -> Row:
    """The columns `ATTEMPT` of an attempt."""
    return tuple(getattr(attempt, name) for name in _names(ATTEMPT))


def permit_of(row: Row) -> Permit:
    """A permit from the columns `PERMIT`."""
    id_, semaphore, node, run_id, weight, rank, token, since = row
    return Permit(
        id=id_, semaphore=semaphore, node=node, run_id=run_id, weight=weight, rank=rank, token=token, since=since
    )


def permit_row(permit: Permit) -> Row:
    """The columns `PERMIT` of a permit."""
    return (
        permit.id,
        permit.semaphore,
        permit.node,
        permit.run_id,
        permit.weight,
        permit.rank,
        permit.token,
        permit.since,
    )


def output_of(row: Row) -> Output:
    """An output from the columns `OUTPUT`."""
    return Output(**dict(zip(OUTPUT.split(", "), row, strict=True)))


def output_row(output: Output) -> Row:
    """The columns `OUTPUT` of an output."""
    return output.run_id, output.attempt, output.size, output.head, output.tail


def skip_of(row: Row) -> Skip:
    """A skip from the columns `SKIP`."""
    first, last, count, reason = row
    return Skip(first=first, last=last, count=count, reason=SkipReason(reason))


def skip_row(skip: Skip) -> Row:
    """The columns `SKIP` of a skip."""
    return skip.first, skip.last, skip.count, skip.reason


def document_of(row: Row) -> Document:
    """A document from the columns `DOCUMENT`."""
    kind, name, text, version = row
    return Document(kind=kind, name=name, text=text, version=version)


def document_row(document: Document) -> Row:
    """The columns `DOCUMENT` of a document."""
    return document.kind, document.name, document.text, document.version


def pause_of(row: Row) -> Pause:
    """A pause from the columns `PAUSE`."""
    queue, since, reason, by = row
    return Pause(queue=queue, since=since, reason=reason, by=by)


def pause_row(pause: Pause) -> Row:
    """The columns `PAUSE` of a pause."""
    return pause.queue, pause.since, pause.reason, pause.by


def node_of(row: Row) -> NodeRecord:
    """A node from the columns `NODE`."""
    (id_, host, boot_id, pid, labels, concurrency, version, started, beat, state, left) = row
    return NodeRecord(
        id=id_,
        host=host,
        boot_id=boot_id,
        pid=pid,
        labels=json.loads(labels),
        concurrency=concurrency,
        version=version,
        started=started,
        beat=beat,
        state=NodeState(state),
        left=left,
    )


def node_row(node: NodeRecord) -> Row:
    """The columns `NODE` of a node."""
    return (
        node.id,
        node.host,
        node.boot_id,
        node.pid,
        json.dumps(node.labels),
        node.concurrency,
        node.version,
        node.started,
        node.beat,
        node.state,
        node.left,
    )
