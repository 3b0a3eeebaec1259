"""Rows of jobs, and of edges between them, made into values and back."""

import json

from tokimori.model.decide import Due
from tokimori.model.dependents import Edge, On
from tokimori.model.encoding import encode_definition, stored_definition
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState, limit_of, most_active, units_here
from tokimori.model.lanes import head_start
from tokimori.stores.rows import Row, names_of, prefixed, row_reader, row_writer, skip_of
from tokimori.stores.rules.births import Follower
from tokimori.stores.rules.lines import lane_for

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
