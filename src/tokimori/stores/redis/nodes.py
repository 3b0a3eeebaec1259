"""Membership and liveness of nodes, and the answer to a beat."""

from msgspec.structs import astuple

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import Lane, NodeId
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.working import Claimed
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.hashes import all_claimed, node_hash, node_of
from tokimori.stores.rows import pulse_of


async def now(db: RedisConnections) -> Moment:
    return _moment(*await db.do("TIME"))


def _moment(seconds: str, microseconds: str) -> Moment:
    return Moment(int(seconds) * SECOND + int(microseconds))


async def register(db: RedisConnections, node: NodeRecord) -> None:
    facts = {"started": node.started, "labels": node.labels, "places": node.concurrency}
    await db.run("register", id=node.id, row=node_hash(node), **facts)


async def tick(db: RedisConnections, beat: Beat) -> Pulse | None:
    """See `Nodes.tick`. The store's time is the server's."""
    answer = await db.run("tick", node=beat.node, started=[astuple(started) for started in beat.started])
    if answer is None:
        return None
    time, owned, peers, orphans, survey = answer
    return pulse_of(_moment(*time), owned, peers, _survey_of(*survey), orphans=bool(orphans))


async def survey(db: RedisConnections, now: Moment, *, past: Moment | None = None) -> Survey:
    return _survey_of(*await db.run("survey", past=past))


def _survey_of(next_due: int | None, lanes: list[str]) -> Survey:
    return Survey(
        next_due=None if next_due is None else Moment(next_due), lanes=tuple(Lane(lane) for lane in sorted(lanes))
    )


async def bury(db: RedisConnections, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
    return bool(await db.run("bury", dead=dead, beat=beat, by=by, now=now))


async def leave(db: RedisConnections, node: NodeId, now: Moment) -> bool:
    return bool(await db.run("leave", node=node, now=now))


async def orphans(db: RedisConnections, limit: int) -> list[Claimed]:
    return all_claimed(await db.run("orphans", limit=limit))


async def list_nodes(db: RedisConnections, *, limit: int = 1000) -> list[NodeRecord]:
    return [node_of(flat) for flat in await db.run("list_nodes", limit=limit)]
