"""From ready runs to ended ones: each method locks and reads a batch, judges it by the rules, and writes the batch."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, NodeId, RunId
from tokimori.model.run import Output, Run
from tokimori.model.settle import PARKED_BY
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.mysql import family, line, permits
from tokimori.stores.mysql.admission import Admission, admission
from tokimori.stores.mysql.nodes import CLAIMED
from tokimori.stores.mysql.part import Part
from tokimori.stores.mysql.pauses import SHARED_PAUSED, claimable
from tokimori.stores.mysql.permits import Freed
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, insert, sql
from tokimori.stores.rows import (
    ATTEMPT,
    OUTPUT,
    RUN,
    RUN_COLUMNS,
    Row,
    all_claimed,
    attempt_row,
    output_row,
    run_of,
    run_values,
)
from tokimori.stores.rules.claiming import MOST_EXAMINED, claimed_run
from tokimori.stores.rules.settling import Standing, ending, judge, settled_run

_ALIVE = f"SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive' {SHARED} SKIP LOCKED"
# The limit is read without a lock: it only tells which lock to ask for.
_READY = f"""
SELECT {RUN}, (SELECT max_running FROM tokimori_jobs WHERE incarnation = tokimori_runs.incarnation)
FROM tokimori_runs FORCE INDEX (tokimori_runs_ready)
WHERE state = 'ready' AND lane = %s AND incarnation NOT IN (%s) ORDER BY "rank", id LIMIT %s FOR UPDATE SKIP LOCKED
"""
_TAKE = f"""
UPDATE tokimori_runs {BY_KEY} SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = %s,
    claim_id = %s, pid = NULL, started = NULL, exit_code = NULL, "signal" = NULL, error = NULL
WHERE id IN (%s)
"""
_MOST_AT_ONCE = 1000
_NO_JOB = Incarnation(0)
"""No job has this incarnation."""


class MysqlWorking(Part):
    """See `tokimori.ports.store.Working`."""

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`."""
        while True:
            claimed = await self._db.transact(lambda transaction: _claim(transaction, claim, now))
            if not isinstance(claimed, frozenset):
                return claimed
            # By themselves: who makes one of them at the same time is waited for, which a claim never does.
            await self._db.ask(*permits.made(claimed))

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        return await self._db.transact(lambda transaction: _settle(transaction, changes, by)) if changes else []

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """See `Working.save_outputs`. The size comes last: assignments see those before them."""
        newer = "NOT settled AND VALUES(size) >= size"
        keep = ", ".join(f"{name} = IF({newer}, VALUES({name}), {name})" for name in ("head", "tail", "size"))
        for output in sorted(outputs, key=lambda output: output.run_id):
            await self._db.ask(*_insert_outputs("INSERT", [output], f"ON DUPLICATE KEY UPDATE {keep}", settled=False))


def _insert_outputs(verb: str, outputs: Sequence[Output], rest: str = "", *, settled: bool) -> Iterator[str]:
    for output in outputs:
        yield from insert(verb, "tokimori_outputs", f"{OUTPUT}, settled", [(*output_row(output), settled)], rest)


@dataclass(slots=True)
class _Catch:
    """A claim under way."""

    claim: Claim
    taken: list[Claimed] = field(default_factory=list)
    busy: set[Incarnation] = field(default_factory=set)
    unknown: frozenset[str] = frozenset()
    examined: int = 0
    freed: Freed = field(default_factory=Freed)
    passed: Counter[Incarnation] = field(default_factory=Counter)
    places: dict[Incarnation, line.Place] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        return self.claim.limit - len(self.taken)

    def pass_on(self, admitted: Admission) -> None:
        """Note whose turns are to be passed on when the claim ends: none of those is examined by it once more."""
        freed = admitted.freed()
        self.freed.keys |= freed.keys
        self.freed.semaphores |= freed.semaphores
        self.passed += admitted.passed()
        self.places |= admitted.places()

    def look(self, batch: int) -> list[str]:
        """Lock the first ready runs of each lane."""
        busy = sorted(self.busy) or [_NO_JOB]
        return [sql(_READY, lane, busy, batch) for lane in self.claim.lanes]


async def _claim(transaction: Transaction, claim: Claim, now: Moment) -> list[Claimed] | frozenset[str]:
    """Nothing is waited for: what is locked stays ready. Semaphores that are to be made first, where there are any."""
    catch, batch = _Catch(claim), claim.limit
    before = sql(f'{CLAIMED} AND r.node_id = %s AND r.claim_id = %s ORDER BY r."rank", r.id', claim.node, claim.id)
    node, known, paused, *ready = await transaction.ask(
        sql(_ALIVE, claim.node), before, SHARED_PAUSED, *catch.look(batch)
    )
    if not node.rows:
        return []
    if known.rows:
        return all_claimed(known.rows)
    lanes = claimable(claim.lanes, paused)
    ready = [answer for lane, answer in zip(claim.lanes, ready, strict=True) if lane in lanes]
    catch.claim = replace(claim, lanes=lanes)
    while True:
        found = sorted((row for answer in ready for row in answer.rows), key=_in_line)[:batch]
        writes = await _judge(transaction, catch, found, now)
        if catch.unknown:
            return catch.unknown
        catch.examined += len(found)
        if not catch.wanted or len(found) < batch or catch.examined >= claim.limit + MOST_EXAMINED:
            served = (*writes, *line.wake(catch.passed, catch.places))
            await transaction.commit(*await permits.serve(transaction, catch.freed, served))
            return catch.taken
        batch = max(catch.wanted, min(4 * batch, _MOST_AT_ONCE))
        ready = (await transaction.ask(*writes, *catch.look(batch)))[len(writes) :]


_RANK, _ID = (RUN.split(", ").index(column) for column in ('"rank"', "id"))


def _in_line(row: Row) -> tuple[int, RunId]:
    return row[_RANK], row[_ID]


async def _judge(transaction: Transaction, catch: _Catch, found: Sequence[Row], now: Moment) -> list[str]:
    """Take what fits, send what does not to its line; what is still to be written."""
    if not found:
        return []
    runs = [(run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS]) for row in found]
    admitted = await admission(transaction, runs)
    catch.unknown = admitted.unknown
    taken = []
    for run, _ in runs:
        if not catch.wanted:
            break
        gate = admitted.open(run)
        if gate is None:
            catch.busy.add(run.incarnation)
        elif not admitted.refuses(run, gate):
            mine = claimed_run(run, catch.claim.node)
            admitted.take(mine, gate)
            catch.taken.append(Claimed(run=mine, definition=gate.definition))
            taken.append(run.id)
    catch.pass_on(admitted)
    writes = [sql(_TAKE, catch.claim.node, catch.claim.id, taken)] if taken else []
    return [*writes, *admitted.writes(now)]


@dataclass(slots=True)
class _Batch:
    """What a settle writes."""

    freed: Counter[Incarnation] = field(default_factory=Counter)
    lines: Freed = field(default_factory=Freed)
    runs: dict[RunId, Run] = field(default_factory=dict)
    settled: dict[RunId, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def add(self, run: Run, change: Change, by: NodeId, *, job_exists: bool) -> None:
        """A change that holds."""
        self.runs[run.id] = settled_run(run, change, *ending(change, cancel=run.cancel, job_exists=job_exists))
        self.settled[run.id] = (by, change.token)
        self.changes.append(change)
        self.freed[run.incarnation] += 1
        self.lines.pass_on(run, ())

    @property
    def parks(self) -> bool:
        """Whether a job of a run that failed parks."""
        return any(change.parks and self.runs[change.run_id].state is RunState.FAILED for change in self.changes)

    def writes(self) -> Iterator[str]:
        """Move what ended to the history, and rewrite what goes on."""
        yield from line.end([(run, self.settled[run.id]) for run in self.runs.values() if run.state in ENDS])
        for run in self.runs.values():
            if run.state not in ENDS:
                yield sql(_GO_ON, *_changed(run), *self.settled[run.id], run.id)
        attempts = [attempt_row(change.attempt) for change in self.changes if change.attempt is not None]
        yield from insert("REPLACE", "tokimori_attempts", ATTEMPT, attempts)
        outputs = [change.output for change in self.changes if change.output is not None]
        yield from _insert_outputs("REPLACE", outputs, settled=True)

    def stops(self) -> Iterator[str]:
        """Park jobs, whose newborn runs lose their lanes too."""
        for change in self.changes:
            ended = self.runs[change.run_id]
            if change.parks and ended.state is RunState.FAILED:
                yield sql(_PARK, ended.error, PARKED_BY, ended.incarnation)
                yield sql(_STOP, ended.incarnation, ended.incarnation)
                yield sql(permits.REJOIN, ended.incarnation)


_CHANGED = (
    "state",
    "due",
    "rank",
    "failures",
    "lost",
    "started",
    "pid",
    "ended",
    "exit_code",
    "signal",
    "error",
    "details",
)
_changed = run_values(_CHANGED)
_GO_ON = f"""
UPDATE tokimori_runs SET {", ".join(f'"{name}" = %s' for name in _CHANGED)}, settled_by = %s, settled_token = %s
WHERE id = %s
"""


_PARK = """
UPDATE tokimori_jobs SET state = 'parked', reason = %s, "by" = %s, next_due = NULL, lane = NULL
WHERE incarnation = %s AND state IN ('enabled', 'finished')
"""
_STOP = """
UPDATE tokimori_runs SET lane = NULL WHERE incarnation = %s
    AND EXISTS (SELECT 1 FROM tokimori_jobs WHERE incarnation = %s AND state = 'parked')
"""


class _Besides(NamedTuple):
    """What a settle locks besides, because a try without has found it: that costs who has no semaphores nothing.

    Gates of jobs whose runs have keys, semaphores of runs that hold permits, and those that a job which parks wants.
    """

    gates: frozenset[Incarnation] = frozenset()
    holders: frozenset[RunId] = frozenset()
    semaphores: frozenset[str] = frozenset()

    def with_found(self, keyed: Iterable[Incarnation], holders: Iterable[RunId], names: Iterable[str]) -> "_Besides":
        """The same and more."""
        return _Besides(self.gates.union(keyed), self.holders.union(holders), self.semaphores.union(names))

    def locks(self) -> list[str]:
        """In order: behind the gates, before the runs."""
        some = self.holders or self.semaphores
        return [permits.lock(self.semaphores, of_runs=self.holders)] if some else []


async def _settle(transaction: Transaction, changes: Sequence[Change], by: NodeId) -> list[Verdict]:
    besides = _Besides()
    while isinstance(settled := await _try(transaction, changes, by, besides), _Besides):
        besides = settled
        await transaction.undo()
    return settled


async def _try(
    transaction: Transaction, changes: Sequence[Change], by: NodeId, besides: _Besides
) -> list[Verdict] | _Besides:
    """Locked in order: nodes, gates, semaphores, runs. Anew with what is to be locked besides, where that was found.

    So too where a job was given a limit meanwhile, and its gate is not ours.
    """
    jobs = {change.incarnation for change in changes}
    nodes = sorted({by, *(change.owner for change in changes)})
    ids = sorted({change.run_id for change in changes})
    going_on = {change.incarnation for change in changes if change.state not in ENDS or change.parks}
    living, _, related, gates, *locked, live, counted, exist = await transaction.ask(
        sql(f"SELECT id, state FROM tokimori_nodes WHERE id IN (%s) ORDER BY id {SHARED}", nodes),
        family.lock_bounded_children(change.job_id for change in changes),
        family.lock_children(change.job_id for change in changes),
        line.lock_gates(jobs, all_of=going_on | besides.gates),
        *besides.locks(),
        sql(f"SELECT {line.KEPT}, holds FROM tokimori_runs {BY_KEY} WHERE id IN (%s) ORDER BY id FOR UPDATE", ids),
        line.count_places(jobs),
        sql("SELECT incarnation, semaphores FROM tokimori_jobs WHERE incarnation IN (%s)", sorted(jobs)),
    )
    places, ours = line.places_of(counted), {incarnation for (incarnation,) in gates.rows}
    runs = {row[_ID]: run_of(row[:RUN_COLUMNS]) for row in live.rows}
    wanted = besides.with_found(
        (run.incarnation for run in runs.values() if run.concurrency_key is not None and run.incarnation not in ours),
        (row[_ID] for row in live.rows if row[-1]),
        _wanted_by_parking(changes, dict(exist.rows)),
    )
    if wanted != besides or places.keys() - ours:
        return wanted
    standings = {row[_ID]: _standing(row) for row in live.rows}
    standings |= await _finished(transaction, [run_id for run_id in ids if run_id not in standings])
    batch = _Batch()
    states = {node_id: NodeState(state) for node_id, state in living.rows}
    existing = {incarnation for incarnation, _ in exist.rows}
    verdicts = []
    for change in changes:
        standing = standings.get(change.run_id)
        verdict = judge(change, standing, by, states)
        if standing is not None and verdict is Verdict.APPLIED:
            batch.add(runs[change.run_id], change, by, job_exists=change.incarnation in existing)
            standings[change.run_id] = standing._replace(running=False, settled_by=by, settled_token=change.token)
        verdicts.append(verdict)
    left = {job: place._replace(running=place.running - batch.freed[job]) for job, place in places.items()}
    parents = [run for run in batch.runs.values() if run.incarnation in existing]
    born = await family.bear(transaction, family.children_of(related, parents), batch.runs.values())
    given_back = sorted(besides.holders & batch.runs.keys())
    writes = [*batch.writes(), *_give_back(given_back), *born, *batch.stops(), *line.wake(batch.freed, left)]
    if given_back or batch.parks:
        batch.lines.semaphores.update(name for answer in locked for (name,) in answer.rows)
    await transaction.commit(*await permits.serve(transaction, batch.lines, writes))
    return verdicts


def _wanted_by_parking(changes: Sequence[Change], semaphores: Mapping[Incarnation, str | None]) -> set[str]:
    """The runs of a job that parks leave the lines in which they stand."""
    parking = {change.incarnation for change in changes if change.parks}
    return {name for job in parking for name in permits.names_in(semaphores.get(job))}


def _give_back(runs: Sequence[RunId]) -> Iterator[str]:
    if runs:
        yield sql("DELETE t FROM tokimori_permits t FORCE INDEX (tokimori_permits_run) WHERE t.run_id IN (%s)", [*runs])
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET holds = false WHERE id IN (%s)", [*runs])


def _standing(row: Row) -> Standing:
    run, (settled_by, settled_token) = run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS : RUN_COLUMNS + 2]
    return Standing(run.state is RunState.RUNNING, run.node_id, run.token, settled_by, settled_token)


async def _finished(transaction: Transaction, ids: Sequence[RunId]) -> dict[RunId, Standing]:
    """What is not live, because it ended or never was."""
    if not ids:
        return {}
    columns = "id, node_id, token, settled_by, settled_token"
    (found,) = await transaction.ask(sql(f"SELECT {columns} FROM tokimori_history WHERE id IN (%s)", list(ids)))
    return {run_id: Standing(False, *rest) for run_id, *rest in found.rows}
