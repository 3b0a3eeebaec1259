"""Membership and liveness of nodes: statements, and the answer to a beat."""

import sqlite3

from tokimori.clock import Moment
from tokimori.model.ids import Lane, NodeId
from tokimori.model.lanes import open_lanes
from tokimori.ports.nodes import Beat, NodeRecord, NodeState, Pulse, Survey
from tokimori.ports.working import Claimed
from tokimori.stores.rows import CLAIMED, NODE, all_claimed, marks, node_row, pulse_of
from tokimori.stores.sqlite import lines
from tokimori.stores.sqlite.lines import paused_queues
from tokimori.stores.sqlite.moves import move_runs, some_move, willing

_LANES = lines.each("lane", "state = 'ready' AND lane IS NOT NULL")
_DEAD_OWNERS = f"""
SELECT o.value FROM ({lines.each("node_id", "state = 'running'")}) o
JOIN tokimori_nodes n ON n.id = o.value AND n.state = 'dead'"""
_NEXT_DUE = """
SELECT min(next) FROM (
    SELECT min(next_due) AS next FROM tokimori_jobs WHERE state = 'enabled' AND next_due > ?1
    UNION ALL
    SELECT min(due) FROM tokimori_runs WHERE state = 'waiting' AND due > ?1
    UNION ALL
    SELECT min(wakes) FROM tokimori_semaphores WHERE wakes > ?1)"""
_EVER = -(2**63)


def register(db: sqlite3.Connection, node: NodeRecord) -> None:
    added = f"INSERT INTO tokimori_nodes ({NODE}) VALUES ({marks(NODE)}) ON CONFLICT (id) DO UPDATE"
    db.execute(f"{added} SET labels = excluded.labels, concurrency = excluded.concurrency", node_row(node))


def tick(db: sqlite3.Connection, beat: Beat, store_now: Moment) -> Pulse | None:
    raised = db.execute("UPDATE tokimori_nodes SET beat = beat + 1 WHERE id = ? AND state = 'alive'", (beat.node,))
    if not raised.rowcount:
        return None
    lines.sweep(db)
    moving = some_move(db)
    if moving is not None:
        with willing(db):
            move_runs(db, moving)
    db.executemany(
        """UPDATE tokimori_runs SET pid = ?, started = ?
        WHERE id = ? AND state = 'running' AND node_id = ? AND token = ?""",
        [(run.pid, run.at, run.run_id, beat.node, run.token) for run in beat.started],
    )
    ours = "SELECT id, token, cancel FROM tokimori_runs WHERE state = 'running' AND node_id = ?"
    owned = db.execute(ours, (beat.node,))
    peers = db.execute("SELECT id, beat FROM tokimori_nodes WHERE state = 'alive' AND id <> ?", (beat.node,))
    return pulse_of(store_now, owned, peers, survey(db, store_now), orphans=bool(_dead_owners(db)))


def survey(db: sqlite3.Connection, now: Moment, *, past: Moment | None = None) -> Survey:
    lanes = [Lane(lane) for (lane,) in db.execute(_LANES)]
    (next_due,) = db.execute(_NEXT_DUE, (_EVER if past is None else past,)).fetchone()
    return Survey(next_due=next_due, lanes=open_lanes(lanes, paused_queues(db)))


def bury(db: sqlite3.Connection, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
    bury = """UPDATE tokimori_nodes SET state = 'dead', "left" = ? WHERE id = ? AND beat = ? AND state = 'alive'
        AND EXISTS (SELECT 1 FROM tokimori_nodes WHERE id = ? AND state = 'alive')"""
    if db.execute(bury, (now, dead, beat, by)).rowcount:
        lines.drop_permits(db, dead)
    return state_of(db, dead) is NodeState.DEAD


def leave(db: sqlite3.Connection, node: NodeId, now: Moment) -> bool:
    leave = """UPDATE tokimori_nodes SET state = 'left', "left" = ? WHERE id = ? AND state = 'alive'
        AND NOT EXISTS (SELECT 1 FROM tokimori_runs WHERE state = 'running' AND node_id = tokimori_nodes.id)"""
    if db.execute(leave, (now, node)).rowcount:
        lines.drop_permits(db, node)
        db.execute("DELETE FROM tokimori_nodes WHERE id = ? AND concurrency = 0", (node,))
    return state_of(db, node) is not NodeState.ALIVE


def state_of(db: sqlite3.Connection, node: NodeId) -> NodeState | None:
    """Return the state of the node; None if there is no such node."""
    return next((NodeState(*row) for row in db.execute("SELECT state FROM tokimori_nodes WHERE id = ?", (node,))), None)


def orphans(db: sqlite3.Connection, limit: int) -> list[Claimed]:
    dead = _dead_owners(db)
    owned = f'{CLAIMED} AND r.node_id IN ({", ".join("?" for _ in dead)}) ORDER BY r."rank", r.id LIMIT ?'
    return all_claimed(db.execute(owned, (*dead, limit)).fetchall())


def _dead_owners(db: sqlite3.Connection) -> list[NodeId]:
    return [node_id for (node_id,) in db.execute(_DEAD_OWNERS)]
