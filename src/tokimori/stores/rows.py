"""Rows made into values and back. Only this module knows the order of columns."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from tokimori.clock import Moment
from tokimori.model.claim_rate import stored_rate
from tokimori.model.decide import Due
from tokimori.model.dependents import Edge, On
from tokimori.model.document import Document
from tokimori.model.encoding import definition_of, encode_definition, stored_definition
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job, JobState, limit_of, most_active, units_here
from tokimori.model.lanes import Pause, head_start
from tokimori.model.run import LONG, NO_DETAILS, Attempt, Output, Run, Skip, SkipReason, decode_details, encode_details
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Arrival
from tokimori.ports.ends import EndedRun
from tokimori.ports.nodes import NodeRecord, NodeState, Pulse, Survey
from tokimori.ports.semaphores import Permit, Semaphore
from tokimori.ports.store import Most
from tokimori.ports.working import Claimed
from tokimori.stores.rules.lines import lane_for
from tokimori.stores.rules.new_runs import Follower

T = TypeVar("T")
Row = tuple[Any, ...]

RUN = (
    'id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt, '
    'failures, lost, token, node_id, pid, started, ended, exit_code, "signal", error, cancel, details, '
    "parent_id, root, result, concurrency_key, blocked_on, cpu, memory"
)
BIRTH = (
    'id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, details, '
    "parent_id, root, concurrency_key"
)
"""Columns of a new run; the others are empty."""
OUTSIDE_ADD = f"""INSERT INTO tokimori_runs ({BIRTH}) SELECT {{}} FROM tokimori_jobs
WHERE incarnation = ? AND id = ? AND lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tokimori_history
    WHERE incarnation = ? AND origin = ? AND origin NOT LIKE 's:%') ON CONFLICT DO NOTHING RETURNING 1"""
OUTSIDE_KNOWN = """SELECT CAST(id AS text) FROM tokimori_runs WHERE incarnation = ? AND origin = ? UNION ALL
SELECT CAST(id AS text) FROM tokimori_history WHERE incarnation = ? AND origin = ?"""
ENDED = (
    "written, id, job_id, incarnation, state, origin, nominal, attempt, node_id, started, ended, exit_code, "
    '"signal", error, parent_id, lane, cpu, memory'
)
SETTLED = "settled_by, settled_token"
PERMIT = 'id, semaphore, node_id, run_id, weight, "rank", token, since'
ARRIVAL = "incarnation, root, parents, latest"
ATTEMPT = 'run_id, number, token, node_id, outcome, pid, started, ended, exit_code, "signal", error, cpu, memory'
OUTPUT = "run_id, attempt, size, head, tail, times"
SKIP = "first, last, count, reason"
DOCUMENT = "kind, name, text, version"
PAUSE = 'queue, since, reason, "by"'
NODE = 'id, host, boot_id, pid, labels, concurrency, version, started, beat, state, "left"'

TEXTS = ("payload", "error", "details", "result")
"""The columns of a run that may be long."""
_NECESSARY = RUN.split(", ")[:11]
"""Columns for lists of occurrences (`OCCURRENCES`): these alone take a third less time."""
_SEEN = ", ".join(f"NULL AS {name}" if name in {"due", "priority", '"rank"', "lane"} else name for name in _NECESSARY)


def prefixed(columns: str, table: str) -> str:
    """Return the columns as those of this table."""
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


CLAIMED = f"""
SELECT {prefixed(RUN, "r")}, j.definition
FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
WHERE r.state = 'running'"""
"""Running runs as `all_claimed` reads them."""

RUN_COLUMNS = RUN.count(",") + 1
_RUN_STATES = {str(state): state for state in RunState}


@cache
def marks(columns: str) -> str:
    """Return a question mark for each column."""
    return ", ".join("?" for _ in columns.split(", "))


def run_columns(longest: Most, size: str = "octet_length({0})") -> str:
    """Return the columns `RUN`, with texts up to this bound only; `size` is the expression for the bytes of a text."""
    if longest is None or longest < 0:
        return RUN if longest is None else _SEEN
    text = f"CASE WHEN {size} > {longest:d} THEN '{LONG}' ELSE {{0}} END AS {{0}}" if longest > 0 else "NULL AS {0}"
    return ", ".join(text.format(column) if column in TEXTS else column for column in RUN.split(", "))


def names_of(columns: str) -> list[str]:
    """Return the fields of the value that the columns hold."""
    return columns.replace('"', "").split(", ")


def json_text(value: object) -> str:
    """Return the value as JSON. The standard library takes six times as long."""
    return msgspec.json.encode(value).decode()


def row_reader(kind: Callable[..., T], columns: str, **forms: Callable[[Any], object]) -> Callable[[Row], T]:
    """Return a function that makes the value of these columns; some are stored in another form."""
    names, changed = names_of(columns), tuple(forms.items())

    def read(row: Row) -> T:
        fields = dict(zip(names, row, strict=True))
        for name, form in changed:
            fields[name] = form(fields[name])
        return kind(**fields)

    return read


def row_writer(kind: type[T], *names: str, **forms: Callable[[Any], object]) -> Callable[[T], Row]:
    """Return a function that takes these columns from a value; some are stored in another form, unless None."""
    values: Callable[[T], Row] = attrgetter(*names)
    places = [(names.index(name), form) for name, form in forms.items()]

    def write(value: T) -> Row:
        row = values(value)
        for place, form in places:
            if row[place] is not None:
                row = (*row[:place], form(row[place]), *row[place + 1 :])
        return row

    return write if places else values


_STATE, _DETAILS = (names_of(RUN).index(column) for column in ("state", "details"))


def run_of(row: Row) -> Run:
    """Return a run from the columns `RUN`, which are its fields, in this order: by position is three times faster."""
    if len(row) == len(_NECESSARY):
        return Run(*row[:_STATE], _RUN_STATES[row[_STATE]], *row[_STATE + 1 :])  # type: ignore[call-arg]
    values, details = list(row), row[_DETAILS]
    values[_STATE] = _RUN_STATES[row[_STATE]]
    values[_DETAILS] = NO_DETAILS if details is None else decode_details(details)
    return Run(*values)


def run_values(names: Sequence[str]) -> Callable[[Run], Row]:
    """Return a function that takes these columns, `details` among them, from a run, in this order."""
    return row_writer(Run, *names, details=encode_details)


run_row = run_values(names_of(RUN))
"""The columns `RUN` of a run."""


def all_claimed(rows: Iterable[Row], read: Callable[[Row], Run] = lambda row: run_of(row[:-1])) -> list[Claimed]:
    """Return runs as their owner gets them, from the columns `RUN` and the definition, which many of them share."""
    definitions: dict[str | None, Definition | None] = {None: None}
    claimed = []
    for row in rows:
        if (text := row[-1]) not in definitions:
            definitions[text] = definition_of(text)
        claimed.append(Claimed(run=read(row), definition=definitions[text]))
    return claimed


def _both(kind: type[T], columns: str) -> tuple[Callable[[Row], T], Callable[[T], Row]]:
    """Return two functions: from a row of these columns to a value, and back."""
    return row_reader(kind, columns), row_writer(kind, *names_of(columns))


ended_of = row_reader(EndedRun, ENDED, state=RunState)
attempt_of, attempt_row = _both(Attempt, ATTEMPT)
output_of, output_row = _both(Output, OUTPUT)
document_of, document_row = _both(Document, DOCUMENT)
pause_of, pause_row = _both(Pause, PAUSE)
permit_of, permit_row = _both(Permit, PERMIT.replace("node_id", "node"))
skip_of, skip_row = row_reader(Skip, SKIP, reason=SkipReason), row_writer(Skip, *names_of(SKIP))
arrival_of = row_reader(Arrival, ARRIVAL, parents=lambda text: tuple(sorted(text.split(","))))
arrival_row = row_writer(Arrival, *names_of(ARRIVAL), parents=",".join)
node_of = row_reader(NodeRecord, NODE, labels=json.loads, state=NodeState)
node_row = row_writer(NodeRecord, *names_of(NODE), labels=json.dumps)


def pulse_of(now: Moment, owned: Iterable[Row], peers: Iterable[Row], survey: Survey, *, orphans: bool) -> Pulse:
    """Return the pulse of a beat, from rows of its runs (id, token, cancel) and of its peers (id, beat)."""
    runs = list(owned)
    return Pulse(
        now=now,
        owned=frozenset((run_id, token) for run_id, token, _ in runs),
        cancels=tuple((run_id, token, reason) for run_id, token, reason in runs if reason is not None),
        peers=tuple((node_id, counter) for node_id, counter in peers),
        orphans=orphans,
        survey=survey,
    )


def semaphores_of(rows: Sequence[Row], held: Sequence[Row]) -> list[Semaphore]:
    """Return semaphores from name, limit, used units, waiters, rate, taken units and the moment at which their line
    goes on, with permits of any of them.
    """
    permits = [permit_of(row) for row in held]
    held_of = {row[0]: tuple(permit for permit in permits if permit.semaphore == row[0]) for row in rows}
    return [
        Semaphore(
            name=name,
            limit=limit,
            used=used,
            waiting=waiting,
            holders=held_of[name],
            rate=stored_rate(rate),
            taken=taken or 0,
            wakes=wakes,
        )
        for name, limit, used, waiting, rate, taken, wakes in rows
    ]


JOB = (
    'id, incarnation, version, definition, state, reason, "by", created, updated, anchor, fired_through, next_due, '
    "runs_remaining, tzdata, days_off"
)
JOB_STAMPS = "max_running, lane, most_active, semaphores, max_per_key, priority, head_start, concurrency_key, queue"
"""Columns for parts of the definition that statements use."""
TOMBSTONE = "version, definition, created, deleted"
"""Columns of a deleted job besides its id."""
DELETED = f"""
SELECT incarnation, {TOMBSTONE} FROM tokimori_deleted_jobs d WHERE job_id = %s AND definition IS NOT NULL
    AND EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = d.incarnation)
ORDER BY deleted DESC, incarnation DESC LIMIT 1"""
"""Select of a deleted job with running runs, by its id, as `tombstone_of` reads it."""
SOME_MOVE = """
SELECT incarnation FROM tokimori_moves WHERE incarnation >= coalesce((
    SELECT min(incarnation) FROM tokimori_moves WHERE incarnation >= {}), 0) ORDER BY incarnation LIMIT 1"""
"""Select of a job whose runs are to be moved, the first at or behind a random one: a failing one delays no other."""
EDGE = 'parent, child, "on", joins, declared_by'
JOB_COLUMNS = JOB.count(",") + 1
EDGE_COLUMNS = EDGE.count(",") + 1
_JOB_STATES = {str(state): state for state in JobState}


job_of = row_reader(Job, JOB, definition=stored_definition, state=_JOB_STATES.__getitem__)
"""A job from the columns `JOB`."""
_job_values = row_writer(Job, *names_of(JOB), definition=lambda definition: encode_definition(definition).decode())


def due_of(row: Row) -> Due:
    """Return a due job from the columns `JOB`, its number of active runs, and `SKIP` of its open skip."""
    active, *tail = row[JOB_COLUMNS:]
    return Due(job=job_of(row[:JOB_COLUMNS]), active=active, tail=None if tail[0] is None else skip_of(tuple(tail)))


def edge_of(row: Row) -> Edge:
    """Return an edge from the columns `EDGE`."""
    parent, child, on, joins, declared_by = row
    return Edge(parent, child, On(on), joins, declared_by)


_FOLLOWER = "lane, most_active, concurrency_key, priority, head_start"
FOLLOWER = f"{prefixed(EDGE, 'e')}, {prefixed(JOB, 'j')}, {prefixed(_FOLLOWER, 'j')}"
"""Columns of edges `e` and of the jobs `j` that are their children."""


STEP_FOLLOWER = f"j.id, j.id, 'success', 0, j.id, {prefixed(JOB, 'j')}, {prefixed(_FOLLOWER, 'j')}"
"""The same of jobs `j` alone, which runs name as their steps."""


def follower_of(row: Row) -> Follower:
    """Return a follower from the columns `FOLLOWER`."""
    edge, job, rest = row[:EDGE_COLUMNS], row[EDGE_COLUMNS : EDGE_COLUMNS + JOB_COLUMNS], row[-5:]
    return Follower(edge_of(edge), job_of(job), *rest)


def tombstone_of(job_id: JobId, row: Row) -> Job:
    """Return a deleted job, from its incarnation and the columns `TOMBSTONE`."""
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


def job_row(job: Job) -> Row:
    """Return the columns `JOB` and `JOB_STAMPS` of a job."""
    return (
        *_job_values(job),
        limit_of(job.definition),
        lane_for(job),
        most_active(job.definition),
        semaphores_column(job),
        job.definition.max_running_per_key,
        job.definition.priority,
        head_start(job.definition.priority),
        job.definition.concurrency_key,
        job.definition.queue,
    )


def semaphores_column(job: Job) -> str | None:
    """Return `[[name, weight], …]` by name, as JSON; None if the job wants none, or they are in another store."""
    found = units_here(job.definition, job.incarnation)
    return json.dumps(found) if found else None
