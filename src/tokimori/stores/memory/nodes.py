"""Membership and liveness of nodes, in memory."""

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import NodeId
from tokimori.model.job import JobState
from tokimori.model.lanes import open_lanes
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Beat, NodeRecord, NodeState, Pulse, Survey
from tokimori.ports.working import Claimed
from tokimori.stores.memory.lines import drop_programs, sweep
from tokimori.stores.memory.tables import RunRow, Tables, in_line
from tokimori.stores.rows import pulse_of


def register(tables: Tables, node: NodeRecord) -> None:
    known = tables.nodes.get(node.id, node)
    tables.nodes[node.id] = replace(known, labels=node.labels, concurrency=node.concurrency)


def tick(tables: Tables, beat: Beat, store_now: Moment) -> Pulse | None:
    node = tables.nodes.get(beat.node)
    if node is None or node.state is not NodeState.ALIVE:
        return None
    tables.nodes[node.id] = replace(node, beat=node.beat + 1)
    sweep(tables)
    owned = {row.run.id: row for row in owned_by(tables, node.id)}
    for started in beat.started:
        row = owned.get(started.run_id)
        if row is not None and row.run.token == started.token:
            tables.put(row, replace(row.run, pid=started.pid, started=started.at))
    runs = ((row.run.id, row.run.token, row.run.cancel) for row in owned.values())
    peers = (peer for peer in tables.nodes.values() if peer.state is NodeState.ALIVE and peer.id != node.id)
    beats = ((peer.id, peer.beat) for peer in peers)
    return pulse_of(store_now, runs, beats, survey(tables, store_now), orphans=bool(_orphans(tables)))


def survey(tables: Tables, now: Moment, *, past: Moment | None = None) -> Survey:
    runs = (row.run for row in tables.live.values())
    moments = [job.next_due for job in tables.jobs.values() if job.state is JobState.ENABLED]
    moments += [run.due for run in runs if run.state is RunState.WAITING]
    moments += [semaphore.turns.wakes for semaphore in tables.semaphores.values()]
    ahead = (due for due in moments if due is not None and (past is None or due > past))
    lanes = sorted(lane for lane, line in tables.ready.items() if line)
    return Survey(next_due=min(ahead, default=None), lanes=open_lanes(lanes, tables.pauses))


def bury(tables: Tables, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
    node, judge = tables.nodes.get(dead), tables.nodes.get(by)
    if node is None:
        return False
    if node.state is NodeState.ALIVE and node.beat == beat and judge is not None and judge.state is NodeState.ALIVE:
        node = tables.nodes[dead] = replace(node, state=NodeState.DEAD, left=now)
        drop_programs(tables, dead)
    return node.state is NodeState.DEAD


def leave(tables: Tables, node: NodeId, now: Moment) -> bool:
    record = tables.nodes.get(node)
    if record is None or record.state is not NodeState.ALIVE:
        return True
    if owned_by(tables, node):
        return False
    tables.nodes[node] = replace(record, state=NodeState.LEFT, left=now)
    drop_programs(tables, node)
    if record.is_program:
        del tables.nodes[node]
    return True


def orphans(tables: Tables, limit: int) -> list[Claimed]:
    return [claimed(tables, row) for row in sorted(_orphans(tables), key=in_line)[:limit]]


def list_nodes(tables: Tables, *, limit: int = 1000) -> list[NodeRecord]:
    nodes = sorted(tables.nodes.values(), key=lambda node: (node.left or node.started, node.id), reverse=True)
    nodes.sort(key=lambda node: node.state is not NodeState.ALIVE)
    return nodes[:limit]


def owned_by(tables: Tables, node_id: NodeId) -> list[RunRow]:
    """Return the running runs of a node."""
    return [row for row in tables.running.values() if row.run.node_id == node_id]


def claimed(tables: Tables, row: RunRow) -> Claimed:
    """Return a run as its owner gets it."""
    job = tables.job_of(row.run.incarnation)
    return Claimed(run=row.run, definition=None if job is None else job.definition)


def _orphans(tables: Tables) -> list[RunRow]:
    dead = {node.id for node in tables.nodes.values() if node.state is NodeState.DEAD}
    return [row for row in tables.running.values() if row.run.node_id in dead]
