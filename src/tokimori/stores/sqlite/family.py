"""Which jobs run after which, and the runs of children when their parents end: statements on edges and arrivals."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from tokimori.model.dependents import Edge, On, follows, root_of
from tokimori.model.ids import Incarnation, JobId, Lane, RunId
from tokimori.model.job import Job
from tokimori.model.run import Run, SkipReason
from tokimori.ports.store import Family
from tokimori.stores.rows import JOB, RUN, RUN_COLUMNS, SKIP, Row, job_of, marks, prefixed, run_of, run_row, skip_row
from tokimori.stores.rules.births import NOT_RUN, child_run, child_skip
from tokimori.stores.rules.errors import check_family, is_parent
from tokimori.stores.rules.lines import has_room
from tokimori.stores.sqlite import lines

_EDGE = 'parent, child, "on", joins, declared_by'
_CHILDREN = f"""
SELECT {prefixed(RUN, "h")}, {prefixed(_EDGE, "e")}, {prefixed(JOB, "j")}, j.lane, j.most_active
FROM tokimori_history h JOIN tokimori_jobs p ON p.incarnation = h.incarnation
JOIN tokimori_edges e ON e.parent = h.job_id JOIN tokimori_jobs j ON j.id = e.child
WHERE h.id IN (SELECT value FROM json_each(?)) ORDER BY h.id, j.created, j.id, e."on"
"""
_ADD = f"""
INSERT INTO tokimori_runs ({RUN}) SELECT {marks(RUN)} WHERE NOT EXISTS (
    SELECT 1 FROM tokimori_history WHERE incarnation = ? AND origin = ? AND origin NOT LIKE 's:%')
ON CONFLICT (incarnation, origin) DO NOTHING
"""
_SKIP = f"""
INSERT INTO tokimori_skips (incarnation, {SKIP}) VALUES (?, {marks(SKIP)})
ON CONFLICT (incarnation, first) DO UPDATE SET last = excluded.last, count = count + 1, reason = excluded.reason
"""
Edges = Mapping[JobId, tuple[Edge, ...]]
"""By the job that declares them."""
_EDGE_COLUMNS = _EDGE.count(",") + 1


def change_edges(db: sqlite3.Connection, before: Edges, after: Edges, family: int | None = None) -> None:
    """Put the edges that jobs declare now in place of those from before. Raises `FamilyChanged`."""
    if before == after:
        return
    if after:
        check_family(_version(db), family)
    db.executemany("DELETE FROM tokimori_edges WHERE declared_by = ?", [(job_id,) for job_id in before])
    db.executemany(
        f"INSERT INTO tokimori_edges ({_EDGE}) VALUES ({marks(_EDGE)})",
        [edge for edges in after.values() for edge in edges],
    )
    db.execute("INSERT INTO tokimori_family VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET version = version + 1")


def leave_family(db: sqlite3.Connection, job_id: JobId) -> None:
    """Forget the edges that the job declared, whatever its definition says. Raises `Refused` where it has children."""
    children = "SELECT 1 FROM tokimori_edges WHERE parent = ? AND declared_by = child"
    if db.execute(children, (job_id,)).fetchone() is not None:
        raise is_parent(job_id)
    change_edges(db, {job_id: ()}, {})


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("SELECT coalesce(max(version), 0) FROM tokimori_family").fetchone()
    return int(version)


def whole_family(db: sqlite3.Connection) -> Family:
    """See `Jobs.family`."""
    rows = db.execute(f'SELECT {_EDGE} FROM tokimori_edges ORDER BY parent, child, "on", joins, declared_by')
    return Family(version=_version(db), edges=tuple(map(_edge_of, rows)))


def _edge_of(row: Row) -> Edge:
    """From the columns of `_EDGE`."""
    parent, child, on, joins, declared_by = row
    return Edge(parent, child, On(on), joins, declared_by)


def bear_children(db: sqlite3.Connection, ended: Sequence[RunId]) -> None:
    """Give each child of these runs its run; `place` is in the order in which the children were added.

    Those of one child in the order of roots and parents: where not all of them have room every store chooses the same.
    """
    if db.execute("SELECT 1 FROM tokimori_edges LIMIT 1").fetchone() is None:
        return
    rows = db.execute(_CHILDREN, (json.dumps(ended),)).fetchall()
    births: list[tuple[int, _Child]] = []
    for _, group in groupby(rows, key=lambda row: row[0]):
        found = [_child_of(row) for row in group]
        births += enumerate(child for child in found if follows(child.edge.on, child.parent.state))
    for place, child in sorted(births, key=lambda birth: birth[1].order):
        if _joined(db, child):
            _bear(db, child, place)


class _Child(NamedTuple):
    """A job that may run after the end of a run.

    What is kept beside the definition is known also where that can't be read.
    """

    parent: Run
    edge: Edge
    job: Job
    lane: Lane | None
    most_active: int | None

    @property
    def order(self) -> tuple[Incarnation, str, RunId]:
        return self.job.incarnation, root_of(self.parent), self.parent.id


def _child_of(row: Row) -> _Child:
    """From the columns of `_CHILDREN`."""
    edge = _edge_of(row[RUN_COLUMNS : RUN_COLUMNS + _EDGE_COLUMNS])
    *job, lane, most = row[RUN_COLUMNS + _EDGE_COLUMNS :]
    return _Child(run_of(row[:RUN_COLUMNS]), edge, job_of(tuple(job)), lane, most)


def _joined(db: sqlite3.Connection, child: _Child) -> bool:
    """Whether it need not wait for other parents."""
    if not child.edge.joins:
        return True
    key = child.job.incarnation, root_of(child.parent)
    db.execute("INSERT OR IGNORE INTO tokimori_arrivals VALUES (?, ?, ?)", (*key, child.parent.job_id))
    arrivals = "FROM tokimori_arrivals WHERE incarnation = ? AND root = ?"
    (arrived,) = db.execute(f"SELECT count(*) {arrivals}", key).fetchone()
    if arrived < child.edge.joins:
        return False
    db.execute(f"DELETE {arrivals}", key)
    return True


def _bear(db: sqlite3.Connection, child: _Child, place: int) -> None:
    reason = NOT_RUN.get(child.job.state)
    most = child.most_active
    if reason is None and most is not None and not has_room(lines.count_active(db, child.job.incarnation), 1, most):
        reason = SkipReason.FULL
    if reason is None:
        run = child_run(child.parent, child.edge, child.job, place, child.lane)
        db.execute(_ADD, (*run_row(run), run.incarnation, run.origin))
        return
    db.execute(_SKIP, (child.job.incarnation, *skip_row(child_skip(child.parent, reason))))
