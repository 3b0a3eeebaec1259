"""Membership and liveness of nodes: statements, and the answer to a beat."""

from tokimori.clock import Moment
from tokimori.model.ids import Lane, NodeId
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.working import Claimed
from tokimori.stores.postgres.batches import columns, parameters
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.rows import CLAIMED, NODE, all_claimed, node_row, pulse_of

_REGISTER = f"""
INSERT INTO tokimori_nodes ({NODE}, functions) VALUES ({", ".join(f"${n}" for n in range(1, NODE.count(",") + 3))})
ON CONFLICT (id) DO UPDATE SET labels = excluded.labels, concurrency = excluded.concurrency"""
_BEGAN = ("uuid[]", "bigint[]", "integer[]", "bigint[]")
_TICK = f"""
SELECT now, owned::text[], tokens::text[], cancels, peers::text[], beats::text[], orphans, next_due, lanes
FROM tokimori_tick($1, {parameters(_BEGAN, 2)})"""
_ORPHANS = f'{CLAIMED} AND r.node_id = ANY (tokimori_dead_owners()) ORDER BY r."rank", r.id LIMIT $1'
_SURVEY_PAST = """
SELECT least(
    (SELECT min(next_due) FROM tokimori_jobs WHERE state = 'enabled' AND next_due > $1),
    (SELECT min(due) FROM tokimori_runs WHERE state = 'waiting' AND due > $1),
    (SELECT min(wakes) FROM tokimori_semaphores WHERE wakes > $1)), lanes
FROM tokimori_survey()"""


async def now(db: PostgresConnections) -> Moment:
    return Moment(await db.value("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))


async def register(db: PostgresConnections, node: NodeRecord) -> None:
    await db.rows(_REGISTER, *node_row(node), db.functions.digest)


async def tick(db: PostgresConnections, beat: Beat) -> Pulse | None:
    began = [(run.run_id, run.token, run.pid, run.at) for run in beat.started]
    row = await db.row(_TICK, beat.node, *columns(began, _BEGAN))
    if row is None:
        return None
    now, *surveyed, orphans, next_due, lanes = row
    ids, tokens, cancels, peers, beats = (each or () for each in surveyed)
    owned = zip(ids, map(int, tokens), cancels, strict=True)
    beats_of_peers = zip(peers, map(int, beats), strict=True)
    return pulse_of(now, owned, beats_of_peers, _survey_of(next_due, lanes), orphans=orphans)


async def survey(db: PostgresConnections, now: Moment, *, past: Moment | None = None) -> Survey:
    rows = db.rows("SELECT * FROM tokimori_survey()") if past is None else db.rows(_SURVEY_PAST, past)
    ((next_due, lanes),) = await rows
    return _survey_of(next_due, lanes)


def _survey_of(next_due: Moment | None, lanes: list[str]) -> Survey:
    return Survey(next_due=next_due, lanes=tuple(Lane(lane) for lane in lanes))


async def bury(db: PostgresConnections, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
    return bool(await db.value("SELECT tokimori_bury($1, $2, $3, $4)", dead, beat, by, now))


async def leave(db: PostgresConnections, node: NodeId, now: Moment) -> bool:
    return bool(await db.value("SELECT tokimori_leave($1, $2)", node, now))


async def orphans(db: PostgresConnections, limit: int) -> list[Claimed]:
    return all_claimed(await db.rows(_ORPHANS, limit))
