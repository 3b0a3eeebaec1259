"""Claims and settles of runs, in memory."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, Lane, NodeId
from tokimori.model.lanes import open_lanes
from tokimori.model.run import Output
from tokimori.model.semaphores import KEY_LINE, is_rate_alone, line_of
from tokimori.model.settle import parked
from tokimori.model.transitions import RunMove, RunState, move
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.memory.family import add_children
from tokimori.stores.memory.lines import (
    free_units,
    give_back,
    made,
    names_of,
    place_in_line,
    programs_in_line,
    rated_of,
    rejoin,
    running_of_key,
    serve,
    take,
)
from tokimori.stores.memory.nodes import claimed, owned_by
from tokimori.stores.memory.tables import OutputRow, RunRow, Tables, in_line
from tokimori.stores.rules.admission import Admission, candidate_of, in_queue
from tokimori.stores.rules.claiming import MOST_EXAMINED, claimed_run, run_permit
from tokimori.stores.rules.lines import CLAIMABLE, Freed, Key, LinePlace, turn_of
from tokimori.stores.rules.new_runs import steps_in
from tokimori.stores.rules.rates import Rated
from tokimori.stores.rules.settling import SettleFacts, ending, judged, settled_run


@dataclass(slots=True)
class MemoryLines:
    """See `Lines`. The heads of all lines of semaphores are looked for once."""

    tables: Tables
    _heads: dict[tuple[str, Lane | None], LinePlace] | None = None

    def running(self, incarnation: Incarnation) -> int:
        return len(self.tables.runs_of(incarnation, RunState.RUNNING))

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        incarnation, name = key
        blocked = self.tables.runs_of(incarnation, RunState.BLOCKED)
        waiting = (row for row in blocked if (row.run.blocked_on, row.run.concurrency_key) == (KEY_LINE, name))
        return running_of_key(self.tables, incarnation, name), next(map(_place, waiting), None)

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        made(self.tables, name)
        return free_units(self.tables, name), next(map(place_in_line, programs_in_line(self.tables, name)), None)

    def rated(self, name: str) -> Rated | None:
        return rated_of(self.tables, name)

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        if self._heads is None:
            self._heads = _heads(row for row in self.tables.live.values() if row.run.blocked_on is not None)
        return self._heads.get((line_of(name), lane))


def _heads(blocked: Iterable[RunRow]) -> dict[tuple[str, Lane | None], LinePlace]:
    """Return the first waiting run of each lane in each line."""
    heads: dict[tuple[str, Lane | None], LinePlace] = {}
    for row in sorted(blocked, key=in_line):
        heads.setdefault((row.run.blocked_on or "", row.run.lane), _place(row))
    return heads


def _place(row: RunRow) -> LinePlace:
    return LinePlace(row.run.rank, row.run.id, 1)


def claim(tables: Tables, claim: Claim, now: Moment) -> list[Claimed]:
    node = tables.nodes.get(claim.node)
    if node is None or node.state is not NodeState.ALIVE:
        return []
    taken = [row for row in owned_by(tables, claim.node) if row.claim_id == claim.id]
    if not taken:
        taken = _take(tables, claim, now)
    return [claimed(tables, row) for row in sorted(taken, key=in_line)]


def _take(tables: Tables, claim: Claim, now: Moment) -> list[RunRow]:
    """Claim the ready runs that fit, in order. Send each other run to the line of the thing that it lacks."""
    ready = heapq.merge(*(tables.ready.get(lane, ()) for lane in open_lanes(claim.lanes, tables.pauses)))
    admission, taken = Admission(MemoryLines(tables)), list[RunRow]()
    rates = {name for name, each in tables.semaphores.items() if is_rate_alone(name) and each.rate is not None}
    for _, run_id in islice(ready, claim.skip, claim.skip + claim.limit + MOST_EXAMINED):
        if len(taken) == claim.limit:
            break
        row = tables.live[run_id]
        job = tables.job_of(row.run.incarnation)
        if job is not None and admission.takes(in_queue(candidate_of(row.run, job.definition), rates)):
            taken.append(row)
    for row in taken:
        row.claim_id = claim.id
        tables.put(row, claimed_run(row.run, claim.node))
    for refused_by, run_id in admission.refused:
        row = tables.live[run_id]
        tables.put(row, replace(row.run, state=move(row.run.state, RunMove.REFUSE), blocked_on=refused_by or None))
    for run_id, name, weight in admission.held:
        permit = run_permit(tables.live[run_id].run, name, weight, now)
        tables.permits[permit.id] = permit
    for name, units in admission.taken.items():
        take(tables, name, units)
    for name, turns in admission.turns.items():
        tables.semaphores[name].turns = turns
    serve(tables, admission.freed)
    return taken


def settle(tables: Tables, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
    nodes = {node.id: node.state for node in tables.nodes.values()}
    rows = {change.run_id: tables.live.get(change.run_id) or tables.history.get(change.run_id) for change in changes}
    facts = {run_id: _facts_of(row) for run_id, row in rows.items() if row is not None}
    verdicts, freed = judged(changes, facts, by, nodes), Freed()
    applied = [change for change, verdict in zip(changes, verdicts, strict=True) if verdict is Verdict.APPLIED]
    for change in applied:
        row = tables.live[change.run_id]
        if row.run.state is RunState.RUNNING:
            freed.pass_on(turn_of(row.run))
        freed.semaphores |= give_back(tables, row.run.id)
        _write(tables, row, change, by)
    ended = (tables.history.get(change.run_id) for change in applied if not change.childless)
    spawning = [
        replace(tables.live[each.run_id].run, ended=each.ended)
        for each in applied
        if each.spawns and each.run_id in tables.live
    ]
    add_children(tables, [*(row.run for row in ended if row is not None), *spawning], steps_in(applied))
    for change in applied:
        if change.parks:
            _park(tables, tables.history.get(change.run_id), freed)
    serve(tables, freed)
    return verdicts


def _facts_of(row: RunRow) -> SettleFacts:
    run = row.run
    return SettleFacts(run.state, run.node_id, run.token, row.settled_by, row.settled_token)


def _write(tables: Tables, row: RunRow, change: Change, by: NodeId) -> None:
    run = row.run
    job = tables.job_of(run.incarnation)
    state, error = ending(change, cancel=run.cancel, job_exists=job is not None)
    row.settled_by, row.settled_token = by, change.token
    tables.put(row, settled_run(run, change, state, error))
    if change.attempt is not None:
        tables.attempts.setdefault(run.id, {})[change.attempt.number] = change.attempt
    if change.output is not None:
        tables.outputs[run.id, change.output.attempt] = OutputRow(change.output, settled=True)


def _park(tables: Tables, row: RunRow | None, freed: Freed) -> None:
    """Park the job of a run that failed, with its error. No run of the job is claimed until it is resolved."""
    job = None if row is None or row.run.state is not RunState.FAILED else tables.job_of(row.run.incarnation)
    if row is None or job is None or job.state not in CLAIMABLE:
        return
    tables.jobs[job.id] = parked(job, row.run.error)
    for run_id in tables.by_job.get(job.incarnation, ()):
        live = tables.live[run_id]
        tables.put(live, replace(live.run, lane=None))
    freed.semaphores.update(names_of(job))
    rejoin(tables, job)


def save_outputs(tables: Tables, outputs: Iterable[Output]) -> None:
    for output in outputs:
        known = tables.outputs.get((output.run_id, output.attempt))
        if known is None or (not known.settled and known.output.size <= output.size):
            tables.outputs[output.run_id, output.attempt] = OutputRow(output, settled=False)
