"""Claims and settles of runs: calls of scripts."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from tokimori.clock import Moment
from tokimori.model.ids import NodeId
from tokimori.model.run import Output, encode_details
from tokimori.model.settle import PARKED_BY
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.hashes import all_claimed, output_map
from tokimori.stores.rules.claiming import MOST_EXAMINED
from tokimori.stores.rules.new_runs import step_maps
from tokimori.stores.rules.settling import JOB_DELETED

_VERDICTS = {str(verdict): verdict for verdict in Verdict}


async def claim(db: RedisConnections, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
    asked = {"id": claim.id, "node": claim.node, "lanes": claim.lanes, "limit": claim.limit, "skip": claim.skip}
    has_rest, answer = await db.run("claim", **asked, most=MOST_EXAMINED, now=now)
    return all_claimed(answer), has_rest is not None


async def settle(db: RedisConnections, changes: Sequence[Change], by: NodeId) -> tuple[list[Verdict], bool]:
    """See `Working.settle`; also return if other runs or programs got units of a semaphore, or the turn for them."""
    served, verdicts = await db.run(
        "settle", changes=[_change_map(change) for change in changes], by=by, deleted=JOB_DELETED, parked_by=PARKED_BY
    )
    return [_VERDICTS[verdict] for verdict in verdicts], served > 0


def _change_map(change: Change) -> Change | dict[str, object]:
    """Return the change as the script reads it."""
    if change.details is None and change.attempt is None and change.output is None and not change.then:
        return change
    fields = asdict(change)
    fields["details"], fields["then"] = encode_details(change.details), step_maps(change)
    if change.attempt is not None:
        fields["attempt"] = change.attempt.number, msgspec.json.encode(change.attempt).decode()
    if change.output is not None:
        fields["output"] = output_map(change.output)
    return fields


async def save_outputs(db: RedisConnections, outputs: Sequence[Output]) -> None:
    await db.run("save_outputs", outputs=[output_map(output) for output in outputs])
