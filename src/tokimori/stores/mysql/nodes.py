"""Membership and liveness of nodes: statements, and the answer to a beat."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from secrets import randbits

from tokimori.clock import Moment
from tokimori.errors import StoreError
from tokimori.model.ids import Lane, NodeId
from tokimori.model.lanes import open_lanes
from tokimori.model.semaphores import line_of
from tokimori.ports.nodes import Beat, NodeRecord, NodeState, Pulse, Survey
from tokimori.ports.working import Claimed
from tokimori.stores.mysql import lines
from tokimori.stores.mysql.lines import MAKE_GATE, PAUSED, paused_queues
from tokimori.stores.mysql.moves import move_runs
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import NOW, Answer, insert, sql
from tokimori.stores.reading import NODES
from tokimori.stores.rows import CLAIMED, NODE, SOME_MOVE, all_claimed, node_row, prefixed, pulse_of
from tokimori.stores.rules.lines import Freed

OWNED = CLAIMED.replace("LEFT", "FORCE INDEX (tokimori_runs_owned) LEFT")
"""Running runs as `all_claimed` reads them."""
# Both walk an index from one distinct value to the next: as many steps as there are lanes or owners, not runs. The
# servers only do so if all columns up to that one are asked for, and once they have counted the table's rows.
_LANES = """
SELECT DISTINCT state, lane FROM tokimori_runs FORCE INDEX (tokimori_runs_ready) WHERE state = 'ready'"""
_OWNERS = """
SELECT STRAIGHT_JOIN n.id, n.state
FROM (SELECT DISTINCT state, node_id FROM tokimori_runs FORCE INDEX (tokimori_runs_owned) WHERE state = 'running') owner
JOIN tokimori_nodes n ON n.id = owner.node_id"""
_NEXT_DUE = """
    (SELECT next_due FROM tokimori_jobs FORCE INDEX (tokimori_jobs_due)
        WHERE state = 'enabled' AND next_due > %s ORDER BY next_due LIMIT 1),
    (SELECT due FROM tokimori_runs FORCE INDEX (tokimori_runs_waiting)
        WHERE state = 'waiting' AND due > %s ORDER BY due LIMIT 1),
    (SELECT wakes FROM tokimori_semaphores FORCE INDEX (tokimori_semaphores_wakes)
        WHERE wakes > %s ORDER BY wakes LIMIT 1)"""
_PEERS = "SELECT id, beat FROM tokimori_beats WHERE id <> %s"
_DROP = """
DELETE t FROM tokimori_permits t FORCE INDEX (tokimori_permits_owned) WHERE t.node_id = %s AND t.run_id IS NULL"""
_EVER = -(2**63)
_BEAT = "UPDATE tokimori_beats SET beat = beat + 1 WHERE id = %s"
# Whether anything runs, is ready or stands in a line of semaphores, wherever: while nothing does no more is asked.
_AT_REST = f"""
SELECT {NOW}, {_NEXT_DUE},
    EXISTS (SELECT 1 FROM tokimori_runs FORCE INDEX (tokimori_runs_owned) WHERE state = 'running')
    OR EXISTS (SELECT 1 FROM tokimori_runs FORCE INDEX (tokimori_runs_ready) WHERE state = 'ready' AND lane > '')
    OR EXISTS (SELECT 1 FROM tokimori_runs FORCE INDEX (tokimori_runs_blocked) WHERE blocked_on > '{line_of("")}')
    OR EXISTS (SELECT 1 FROM tokimori_moves)"""
_COLUMNS = prefixed(NODE, "n").replace("n.beat", "COALESCE(b.beat, n.beat)")
NODES_HERE = NODES.format(_COLUMNS, "LEFT JOIN tokimori_beats b ON b.id = n.id")


async def now(db: Sessions) -> Moment:
    ((moment,),) = await db.rows(f"SELECT {NOW}")
    return Moment(moment)


async def register(transaction: Transaction, node: NodeRecord) -> None:
    known = "ON DUPLICATE KEY UPDATE labels = VALUES(labels), concurrency = VALUES(concurrency)"
    added = insert("INSERT", "tokimori_nodes", NODE, [node_row(node)], known)
    beats = """INSERT INTO tokimori_beats SELECT n.id, n.beat FROM tokimori_nodes n
        WHERE n.id = %s AND n.state = 'alive' ON DUPLICATE KEY UPDATE tokimori_beats.id = tokimori_beats.id"""
    await transaction.commit(*added, sql(beats, node.id), MAKE_GATE)


class Ticks:
    """Beats. At rest a beat reads little, and all only if that has changed."""

    def __init__(self) -> None:
        self._at_rest = False

    async def tick(self, db: Sessions, beats: Sessions, beat: Beat) -> Pulse | None:
        """See `Nodes.tick`. It is sent in one round trip, so that no lock waits for the node."""
        raised = self._at_rest and not beat.started
        if raised:
            buried, pulse = await self._rest(beats, beat)
            if buried or pulse is not None:
                return pulse
        answers = await beats.transact(lambda transaction: transaction.commit(*_tick(beat, raised=raised)))
        if not (answers[0].rows if raised else answers[0].changed):
            return None
        clock, owned, peers, owners, in_line, moving, *rest = answers[-9:]
        surveyed = _survey_of(*rest)
        ready = frozenset(Lane(lane) for _, lane in rest[1].rows if lane)  # those of paused queues, too
        self._at_rest = not (owners.rows or in_line.rows or ready or moving.rows)
        if moving.rows:
            with suppress(StoreError):  # a beat waits for no lock, and this is tried with each
                await db.transact(lambda transaction: move_runs(transaction, moving.rows[0][0], "NOWAIT"))
        if await _swept(db, [lane for _, lane in in_line.rows], ready):
            surveyed = await survey(db, clock.rows[0][0])
        orphans = any(state == NodeState.DEAD for _, state in owners.rows)
        return pulse_of(clock.rows[0][0], owned.rows, peers.rows, surveyed, orphans=orphans)

    async def _rest(self, beats: Sessions, beat: Beat) -> tuple[bool, Pulse | None]:
        """Beat, and return if the node is dead, with the pulse if there is nothing to do."""
        own, found, peers = await beats.ask(
            sql(_BEAT, beat.node), sql(_AT_REST, _EVER, _EVER, _EVER), sql(_PEERS, beat.node)
        )
        ((clock, job, run, line, busy),) = found.rows
        self._at_rest = not busy
        if not own.changed or busy:
            return not own.changed, None
        survey = Survey(next_due=_sooner(job, run, line), lanes=())
        return False, pulse_of(clock, (), peers.rows, survey, orphans=False)


async def _swept(db: Sessions, lanes: Iterable[Lane | None], ready: frozenset[Lane]) -> bool:
    """Serve the lines of semaphores for lanes without a ready run. Return if there were such lanes."""
    if not any(lane is not None and lane not in ready for lane in lanes):
        return False
    stuck = [(name, lane) for name, lane in await db.rows(lines.STUCK) if lane is not None]
    if all(lane in ready for _, lane in stuck):
        return False
    with suppress(StoreError):
        await db.transact(lambda transaction: lines.sweep(transaction, stuck, ready))
    return True


async def survey(db: Sessions, now: Moment, *, past: Moment | None = None) -> Survey:
    due = sql(f"SELECT {_NEXT_DUE}", *[_EVER if past is None else past] * 3)
    return _survey_of(*await db.ask(due, _LANES, PAUSED))


async def orphans(db: Sessions, limit: int) -> list[Claimed]:
    dead = [node_id for node_id, state in await db.rows(_OWNERS) if state == NodeState.DEAD]
    owned = f'{OWNED} AND r.node_id IN (%s) ORDER BY r."rank", r.id LIMIT %s'
    return all_claimed(await db.rows(sql(owned, dead, limit))) if dead else []


def _tick(beat: Beat, *, raised: bool) -> Iterator[str]:
    """Yield the statements of a tick. `raised`: the beat was counted before them."""
    yield sql("SELECT 1 FROM tokimori_beats WHERE id = %s FOR UPDATE" if raised else _BEAT, beat.node)
    for run in sorted(beat.started, key=lambda run: run.run_id):
        yield sql(
            """UPDATE tokimori_runs SET pid = %s, started = %s
            WHERE id = %s AND state = 'running' AND node_id = %s AND token = %s
                AND EXISTS (SELECT 1 FROM tokimori_beats WHERE id = %s)""",
            *(run.pid, run.at, run.run_id, beat.node, run.token, beat.node),
        )
    yield f"SELECT {NOW}"
    yield sql("SELECT id, token, cancel FROM tokimori_runs WHERE state = 'running' AND node_id = %s", beat.node)
    yield sql(_PEERS, beat.node)
    yield from (_OWNERS, lines.LINES, sql(SOME_MOVE.format("%s"), randbits(63)))
    yield from (sql(f"SELECT {_NEXT_DUE}", _EVER, _EVER, _EVER), _LANES, PAUSED)


def _survey_of(next_due: Answer, lanes: Answer, paused: Answer) -> Survey:
    ready = sorted(Lane(lane) for _, lane in lanes.rows if lane)
    return Survey(next_due=_sooner(*next_due.rows[0]), lanes=open_lanes(ready, paused_queues(paused)))


def _sooner(*moments: Moment | None) -> Moment | None:
    return min((moment for moment in moments if moment is not None), default=None)


async def bury(transaction: Transaction, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
    """Declare the node dead, after claims and settles of both nodes, and after its beat."""
    nodes, beats, held = await transaction.ask(
        sql("SELECT id, state FROM tokimori_nodes WHERE id IN (%s) ORDER BY id FOR UPDATE", sorted({dead, by})),
        sql("SELECT beat FROM tokimori_beats WHERE id = %s FOR UPDATE", dead),
        lines.lock(of_programs=[dead]),
    )
    states = dict(nodes.rows)
    if beats.rows != [(beat,)] or states.get(by) != NodeState.ALIVE:
        return states.get(dead) == NodeState.DEAD
    writes = _end(dead, NodeState.DEAD, beat, now)
    await transaction.commit(*await _drop_programs(transaction, dead, held, writes))
    return True


async def leave(transaction: Transaction, node: NodeId, now: Moment) -> bool:
    nodes, beats, held, owned = await transaction.ask(
        sql("SELECT concurrency FROM tokimori_nodes WHERE id = %s FOR UPDATE", node),
        sql("SELECT beat FROM tokimori_beats WHERE id = %s FOR UPDATE", node),
        lines.lock(of_programs=[node]),
        sql("SELECT 1 FROM tokimori_runs WHERE state = 'running' AND node_id = %s LIMIT 1", node),
    )
    if not beats.rows:
        return True
    if owned.rows:
        return False
    writes = list(_end(node, NodeState.LEFT, beats.rows[0][0], now))
    if nodes.rows[0][0] == 0:
        writes.append(sql("DELETE FROM tokimori_nodes WHERE id = %s", node))
    await transaction.commit(*await _drop_programs(transaction, node, held, writes))
    return True


def _end(node: NodeId, state: NodeState, beat: int, now: Moment) -> Iterator[str]:
    yield sql('UPDATE tokimori_nodes SET state = %s, beat = %s, "left" = %s WHERE id = %s', state, beat, now, node)
    yield sql("DELETE FROM tokimori_beats WHERE id = %s", node)


async def _drop_programs(transaction: Transaction, node: NodeId, held: Answer, writes: Iterable[str]) -> list[str]:
    """Delete the permits of a dead node's programs, and serve their semaphores. Return the writes that remain."""
    freed = Freed(semaphores={name for (name,) in held.rows})
    drop = [sql(_DROP, node)] if held.rows else []
    return await lines.serve(transaction, freed, [*writes, *drop])
