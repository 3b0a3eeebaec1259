"""Claims: what a run and its permits are once a node has taken it."""

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import NodeId, Token
from tokimori.model.run import Run
from tokimori.model.transitions import Event, move
from tokimori.ports.semaphores import Permit, permit_of

MOST_EXAMINED = 10_000
"""How many ready runs one claim may send to the line of a full job before it gives up until it is asked again."""


def claimed_run(run: Run, node: NodeId) -> Run:
    """A ready run after its claim."""
    return replace(
        run,
        state=move(run.state, Event.CLAIM),
        token=Token(run.token + 1),
        attempt=run.attempt + 1,
        node_id=node,
        pid=None,
        started=None,
        exit_code=None,
        signal=None,
        error=None,
    )


def run_permit(run: Run, name: str, weight: int, now: Moment) -> Permit:
    """What a run holds of a semaphore after its claim."""
    return Permit(
        id=permit_of(run.id, name),
        semaphore=name,
        node=NodeId(run.node_id or ""),
        run_id=run.id,
        weight=weight,
        rank=run.rank,
        token=run.token,
        since=now,
    )
