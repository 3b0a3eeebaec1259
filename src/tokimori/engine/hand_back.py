"""Hand back: give unpenalised what the store gives a node and the node does not know."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tokimori.clock import Moment
from tokimori.engine.refusals import blames_the_asked, tell
from tokimori.engine.settle import change_of
from tokimori.engine.unsettled import Key
from tokimori.errors import NotFound, StoreUnavailable
from tokimori.model.ids import NodeId, RunId
from tokimori.model.outcome import Released
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.work_source import WorkSource
from tokimori.ports.working import Change, Claimed

log = logging.getLogger(__name__)

NONE: Mapping[Key, Claimed] = MappingProxyType({})
LOST_REPLY = Released("the reply to its claim was lost")


async def hand_back(
    source: WorkSource, keys: Sequence[Key], by: NodeId, now: Moment, begun: Mapping[Key, Claimed] = NONE
) -> list[Change]:
    """Return the changes that release runs of a claim whose reply was lost. Only those in `begun` have begun."""
    runs = await asyncio.gather(*(_run(source, run_id) for run_id, _ in keys))
    return [
        change_of(
            Claimed(run=run, definition=begun[key].definition if key in begun else None),
            LOST_REPLY,
            owner=by,
            now=now,
            chance=0,
            started=now if key in begun else None,
        )
        for run, key in zip(runs, keys, strict=True)
        if run is not None and (run.state, run.node_id, run.token) == (RunState.RUNNING, by, key[1])
    ]


async def _run(source: WorkSource, run_id: RunId) -> Run | None:
    try:
        return await source.get_run(run_id)
    except (NotFound, StoreUnavailable):
        return None  # the next tick tells of it again, if it is still there
    except Exception as fault:
        if not blames_the_asked(fault):
            raise
        tell(
            log,
            f"run {run_id} can't be read; the others are handed back, and it is tried again: {fault}",
            fault,
        )
        return None
