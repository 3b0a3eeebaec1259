"""Settles: if a change still holds, and the run after it."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tokimori.model.ids import NodeId, RunId, Token
from tokimori.model.run import NO_DETAILS, Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Change, Verdict

JOB_DELETED = "the job was deleted"
_STAND: Final = frozenset({RunState.SUCCEEDED, RunState.CANCELLED})
"""Ends that no order changes."""
_RUNNING: Final = RunState.RUNNING
_ALIVE: Final = NodeState.ALIVE
_APPLIED: Final = Verdict.APPLIED
"""A member that is looked up in its enum takes 0.07 µs, and each end would look up several."""


class SettleFacts(Struct, frozen=True, gc=False):
    """Facts of a run that guard a settle. `settled_*`: the node and the token of its last settle."""

    state: str
    node_id: NodeId | None
    token: Token
    settled_by: NodeId | None
    settled_token: Token | None


def judge(change: Change, facts: SettleFacts | None, by: NodeId, nodes: Mapping[NodeId, NodeState]) -> Verdict:
    """Judge if a change still holds. The owner settles its own runs, any living node those of a dead one.

    A run that waits for those which it has spawned is settled by any living node, under the token of a later claim.
    """
    if facts is None:
        return Verdict.LOST
    if (facts.settled_by, facts.settled_token) == (by, change.token):
        return Verdict.ALREADY_APPLIED
    held = facts.state == _RUNNING and (facts.node_id, facts.token) == (change.owner, change.token)
    held = held or (facts.state == RunState.WAITING and facts.token < change.token)
    alive = nodes.get(by) is _ALIVE
    allowed = change.owner == by or nodes.get(change.owner) is not _ALIVE
    return _APPLIED if held and alive and allowed else Verdict.LOST


def judged(
    changes: Iterable[Change], known_facts: Mapping[RunId, SettleFacts], by: NodeId, nodes: Mapping[NodeId, NodeState]
) -> list[Verdict]:
    """Return the verdicts on changes, each after those before it."""
    known, verdicts = dict(known_facts), []
    for change in changes:
        facts = known.get(change.run_id)
        verdict = judge(change, facts, by, nodes)
        if facts is not None and verdict is _APPLIED:
            known[change.run_id] = SettleFacts("", facts.node_id, facts.token, by, change.token)
        verdicts.append(verdict)
    return verdicts


def ending(change: Change, *, cancel: str | None, job_exists: bool) -> tuple[RunState, str | None]:
    """Return the state and the error to write for a change that holds.

    An order to cancel, or the job's deletion, may have come after the change was made. The order wins over everything
    but success, as in `tokimori.model.settle`; without its job a run does not go on.
    """
    if change.state in _STAND:
        return change.state, change.error
    if cancel is not None:
        return RunState.CANCELLED, cancel
    if not job_exists and change.state not in ENDS:
        return RunState.CANCELLED, JOB_DELETED
    return change.state, change.error


def settled_run(run: Run, change: Change, state: RunState, error: str | None) -> Run:
    """Return a run after a change that holds; if the change has no start, the one reported by a tick stays."""
    return replace(
        run,
        state=state,
        due=change.due,
        rank=change.rank,
        failures=change.failures,
        lost=change.lost,
        started=run.started if change.started is None else change.started,
        pid=run.pid if change.pid is None else change.pid,
        ended=change.ended if state in ENDS else None,
        exit_code=change.exit_code,
        signal=change.signal,
        error=error,
        cpu=change.cpu,
        memory=change.memory,
        result=change.result if state is RunState.SUCCEEDED else None,
        details=run.details if change.details in (None, NO_DETAILS) else change.details,
    )
