"""Edges between jobs, and runs of children after their parents: statements."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import groupby

from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Step
from tokimori.ports.store import Family
from tokimori.stores import rows
from tokimori.stores.rows import EDGE, FOLLOWER, STEP_FOLLOWER, edge_of, follower_of
from tokimori.stores.rules.edits import Edges
from tokimori.stores.rules.errors import check_family, is_parent
from tokimori.stores.rules.lines import has_room
from tokimori.stores.rules.new_runs import NO_STEPS, Child, arrive, child_skip, children_of, in_order, steps_after
from tokimori.stores.sqlite import lines

_CHILDREN = f"""
SELECT {rows.prefixed(rows.RUN, "h")}, {FOLLOWER}
FROM tokimori_history h JOIN tokimori_jobs p ON p.incarnation = h.incarnation
JOIN tokimori_edges e ON e.parent = h.job_id JOIN tokimori_jobs j ON j.id = e.child
WHERE h.id IN (SELECT value FROM json_each(?)) ORDER BY h.id, j.created, j.id, e."on"
"""
_NAMED = f"SELECT {STEP_FOLLOWER} FROM tokimori_jobs j WHERE j.id IN (SELECT value FROM json_each(?))"
_ENDED = f"SELECT {rows.RUN} FROM tokimori_history WHERE id IN (SELECT value FROM json_each(?1))"
_ENDED += f" UNION ALL {_ENDED}".replace("_history", "_runs").replace(" ended,", " ?2,") + " AND state = 'waiting'"
_ADD = f"""
INSERT INTO tokimori_runs ({rows.RUN}) SELECT {rows.marks(rows.RUN)} WHERE NOT EXISTS (
    SELECT 1 FROM tokimori_history WHERE incarnation = ? AND origin = ? AND origin NOT LIKE 's:%'
    UNION ALL SELECT 1 FROM tokimori_history WHERE id = ?)
ON CONFLICT DO NOTHING"""
_SKIP = f"""
INSERT INTO tokimori_skips (incarnation, {rows.SKIP}) VALUES (?, {rows.marks(rows.SKIP)})
ON CONFLICT (incarnation, first) DO UPDATE SET last = excluded.last, count = count + 1, reason = excluded.reason"""


def change_edges(db: sqlite3.Connection, before: Edges, after: Edges, family: int | None = None) -> None:
    """Replace the edges that jobs declared before. Raises `FamilyChanged`."""
    if before == after:
        return
    if after:
        check_family(_version(db), family)
    db.executemany("DELETE FROM tokimori_edges WHERE declared_by = ?", [(job_id,) for job_id in before])
    db.executemany(
        f"INSERT INTO tokimori_edges ({EDGE}) VALUES ({rows.marks(EDGE)})",
        [edge for edges in after.values() for edge in edges],
    )
    db.execute("INSERT INTO tokimori_family VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET version = version + 1")


def leave_family(db: sqlite3.Connection, job_id: JobId) -> None:
    """Forget the edges that the job declared, as they are stored. Raises `Refused` if it has children."""
    children = "SELECT 1 FROM tokimori_edges WHERE parent = ? AND declared_by = child"
    if db.execute(children, (job_id,)).fetchone() is not None:
        raise is_parent(job_id)
    change_edges(db, {job_id: ()}, {})


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("SELECT coalesce(max(version), 0) FROM tokimori_family").fetchone()
    return int(version)


def whole_family(db: sqlite3.Connection) -> Family:
    """See `Jobs.family`."""
    found = db.execute(f'SELECT {EDGE} FROM tokimori_edges ORDER BY parent, child, "on", joins, declared_by')
    return Family(version=_version(db), edges=tuple(map(edge_of, found)))


def add_children(
    db: sqlite3.Connection, ended: Sequence[RunId], steps: Mapping[RunId, Sequence[Step]] = NO_STEPS, now: int = 0
) -> None:
    """Give each child of these runs its run, and each of their steps, also of those that go on `now`."""
    if not steps and db.execute("SELECT 1 FROM tokimori_edges LIMIT 1").fetchone() is None:
        return
    found = db.execute(_CHILDREN, (json.dumps(ended),)).fetchall()
    new_runs: list[Child] = []
    for _, group in groupby(found, key=lambda row: row[0]):
        pairs = [(row[: rows.RUN_COLUMNS], follower_of(row[rows.RUN_COLUMNS :])) for row in group]
        new_runs += children_of(rows.run_of(pairs[0][0]), [follower for _, follower in pairs])
    if steps:
        named = json.dumps([step.job for each in steps.values() for step in each])
        jobs = {each.job.id: each for each in map(follower_of, db.execute(_NAMED, (named,)))}
        for parent in map(rows.run_of, db.execute(_ENDED, (json.dumps([*steps]), now))):
            new_runs += steps_after(parent, steps[parent.id], jobs)
    for child in in_order(new_runs):
        if (ready := _joined(db, child)) is not None:
            _make_child(db, ready)


def _joined(db: sqlite3.Connection, child: Child) -> Child | None:
    """Note that a parent of the child has ended. Return the child if no other parent is missing."""
    if not child.joins:
        return child
    (incarnation, root), (_, runs) = child.keys
    look = "SELECT * FROM tokimori_arrivals WHERE incarnation = ? AND root IN (?, ?)"
    found = map(rows.arrival_of, db.execute(look, (incarnation, root, runs)))
    arrivals, ready = arrive(child, {(each.incarnation, each.root): each for each in found})
    db.executemany("INSERT OR REPLACE INTO tokimori_arrivals VALUES (?, ?, ?, ?)", map(rows.arrival_row, arrivals))
    return ready


def _make_child(db: sqlite3.Connection, child: Child) -> None:
    (incarnation, _), most = child.key, child.follower.most_active
    reason = child.reason(has_room=most is None or has_room(lines.count_active(db, incarnation), 1, most))
    if reason is None:
        run = child.run()
        db.execute(_ADD, (*rows.run_row(run), run.incarnation, run.origin, run.id))
        return
    db.execute(_SKIP, (incarnation, *rows.skip_row(child_skip(child.parent, reason))))
