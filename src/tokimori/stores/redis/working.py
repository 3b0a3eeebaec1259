"""Claims, settles, nodes and semaphores: calls of scripts."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict, astuple

from tokimori.clock import SECOND, Moment
from tokimori.model.claim_rate import ClaimRate, stored_rate
from tokimori.model.ids import Lane, NodeId, PermitId
from tokimori.model.run import Output, encode_details
from tokimori.model.settle import PARKED_BY
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Answer, Permit, Semaphore, UnitWish
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.hashes import all_claimed, node_hash, node_of, output_map
from tokimori.stores.rows import pulse_of
from tokimori.stores.rules.births import step_maps
from tokimori.stores.rules.claiming import MOST_EXAMINED, answer_of
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore
from tokimori.stores.rules.settling import JOB_DELETED


async def claim(db: RedisConnections, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
    asked = {"id": claim.id, "node": claim.node, "lanes": claim.lanes, "limit": claim.limit, "skip": claim.skip}
    has_rest, answer = await db.run("claim", **asked, most=MOST_EXAMINED, now=now)
    return all_claimed(answer), has_rest is not None


async def settle(db: RedisConnections, changes: Sequence[Change], by: NodeId) -> tuple[list[Verdict], bool]:
    """See `Working.settle`; also return if other runs or programs got units of a semaphore, or the turn for them."""
    served, verdicts = await db.run(
        "settle", changes=[_change_map(change) for change in changes], by=by, deleted=JOB_DELETED, parked_by=PARKED_BY
    )
    return [Verdict(verdict) for verdict in verdicts], served > 0


def _change_map(change: Change) -> Change | dict[str, object]:
    """Return the change as the script reads it."""
    if change.details is None and change.attempt is None and change.output is None and not change.then:
        return change
    told = asdict(change)
    told["details"], told["then"] = encode_details(change.details), step_maps(change)
    if change.attempt is not None:
        told["attempt"] = change.attempt.number, msgspec.json.encode(change.attempt).decode()
    if change.output is not None:
        told["output"] = output_map(change.output)
    return told


async def save_outputs(db: RedisConnections, outputs: Sequence[Output]) -> None:
    await db.run("save_outputs", outputs=[output_map(output) for output in outputs])


async def now(db: RedisConnections) -> Moment:
    return _moment(*await db.do("TIME"))


def _moment(seconds: str, microseconds: str) -> Moment:
    return Moment(int(seconds) * SECOND + int(microseconds))


async def register(db: RedisConnections, node: NodeRecord) -> None:
    said = {"started": node.started, "labels": node.labels, "places": node.concurrency}
    await db.run("register", id=node.id, row=node_hash(node), **said)


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


PAGE = 20
"""Semaphores that one script describes, with their holders: other callers wait meanwhile."""
_HOLDER = ("id", "node", "run_id", "weight", "rank", "token", "since")


async def put_semaphore(
    db: RedisConnections, name: str, limit: int, now: Moment, rate: ClaimRate | None = None
) -> None:
    stored = None if rate is None else rate.stored
    check_lowered(name, limit, await db.run("put_semaphore", name=name, limit=limit, rate=stored), rate)


async def list_semaphores(db: RedisConnections, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    """See `Semaphores.list_semaphores`. Read in pages, each as of its own moment."""
    found: list[Semaphore] = []
    while len(found) < limit:
        page = await _described(db, after=after, limit=min(PAGE, limit - len(found)))
        if not page:
            break
        found += page
        after = page[-1].name
    return found


async def get_semaphore(db: RedisConnections, name: str) -> Semaphore:
    return existing(next(iter(await _described(db, name=name, limit=1)), None), no_semaphore(name))


async def _described(db: RedisConnections, **asked: object) -> list[Semaphore]:
    answer = await db.run("list_semaphores", **asked, most=MOST_COUNTED, holders=MOST_HOLDERS)
    return [
        Semaphore(
            name=name,
            limit=limit,
            used=used,
            waiting=waiting,
            holders=tuple(
                msgspec.convert({"semaphore": name, **dict(zip(_HOLDER, words, strict=True))}, Permit, strict=False)
                for words in holders
            ),
            rate=stored_rate(rate),
            taken=taken,
            wakes=None if wakes is None else Moment(int(wakes)),
        )
        for name, limit, used, waiting, holders, rate, taken, wakes in answer
    ]


async def delete_semaphore(db: RedisConnections, name: str) -> None:
    if not await db.run("delete_semaphore", name=name):
        raise in_use(name)


async def acquire(db: RedisConnections, wish: UnitWish, now: Moment) -> Answer:
    answer, told = await db.run("acquire", **msgspec.structs.asdict(wish), now=now, most=MOST_COUNTED)
    return answer_of(answer, told, wish)


async def release(db: RedisConnections, permit: PermitId, node: NodeId, now: Moment) -> bool:
    return bool(await db.run("release", id=permit, node=node))
