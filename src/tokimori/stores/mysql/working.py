"""From ready runs to ended ones: each method locks and reads a batch, judges it by the rules, and writes the batch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, NodeId, RunId
from tokimori.model.job import Definition
from tokimori.model.run import Output, Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import Change, Claim, Claimed, NodeState, Verdict
from tokimori.stores.mysql import family, line
from tokimori.stores.mysql.nodes import CLAIMED
from tokimori.stores.mysql.part import Part
from tokimori.stores.mysql.pauses import SHARED_PAUSED, claimable
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
    definition_of,
    output_row,
    run_of,
)
from tokimori.stores.rules import MOST_EXAMINED, PARKED_BY, Standing, claimed_run, ending, fits, judge, settled_run

_ALIVE = f"SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive' {SHARED} SKIP LOCKED"
# The limit is read without a lock: it only tells which lock to ask for.
_READY = f"""
SELECT {RUN}, (SELECT max_running FROM tokimori_jobs WHERE incarnation = tokimori_runs.incarnation)
FROM tokimori_runs FORCE INDEX (tokimori_runs_ready)
WHERE state = 'ready' AND lane = %s AND incarnation NOT IN (%s) ORDER BY "rank", id LIMIT %s FOR UPDATE SKIP LOCKED
"""
# The runs' own lanes say whether they may be claimed: who pauses a job takes them, under its gate.
_GATES = (
    f"SELECT incarnation, max_running, definition FROM tokimori_jobs {BY_KEY} WHERE incarnation IN (%s) AND max_running"
)
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
        return await self._db.transact(lambda transaction: _claim(transaction, claim))

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        while changes:
            verdicts = await self._db.transact(lambda transaction: _settle(transaction, changes, by))
            if verdicts is not None:
                return verdicts
        return []

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
    examined: int = 0

    @property
    def wanted(self) -> int:
        return self.claim.limit - len(self.taken)

    def look(self, batch: int) -> list[str]:
        """Lock the first ready runs of each lane."""
        busy = sorted(self.busy) or [_NO_JOB]
        return [sql(_READY, lane, busy, batch) for lane in self.claim.lanes]


async def _claim(transaction: Transaction, claim: Claim) -> list[Claimed]:
    """Nothing is waited for: what is locked stays ready."""
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
        writes = await _judge(transaction, catch, found)
        catch.examined += len(found)
        if not catch.wanted or len(found) < batch or catch.examined >= claim.limit + MOST_EXAMINED:
            await transaction.commit(*writes)
            return catch.taken
        batch = max(catch.wanted, min(4 * batch, _MOST_AT_ONCE))
        ready = (await transaction.ask(*writes, *catch.look(batch)))[len(writes) :]


_RANK, _ID, _INCARNATION = (RUN.split(", ").index(column) for column in ('"rank"', "id", "incarnation"))


def _in_line(row: Row) -> tuple[int, RunId]:
    return row[_RANK], row[_ID]


@dataclass(slots=True)
class _Gate:
    """A job whose gate is locked, and how many of its runs run."""

    limit: int
    definition: Definition
    running: int = 0


async def _judge(transaction: Transaction, catch: _Catch, found: Sequence[Row]) -> list[str]:
    """Take what fits, send what does not to the line; the writes."""
    if not found:
        return []
    gates = await _open_gates(transaction, found)
    taken, refused = [], []
    for row in found:
        if not catch.wanted:
            break
        gate = gates.get(row[_INCARNATION])
        if gate is None:
            catch.busy.add(row[_INCARNATION])
        elif fits(gate.running, gate.limit):
            gate.running += 1
            run = claimed_run(run_of(row[:RUN_COLUMNS]), catch.claim.node)
            catch.taken.append(Claimed(run=run, definition=gate.definition))
            taken.append(run.id)
        else:
            refused.append(row[_ID])
    writes = [sql(_TAKE, catch.claim.node, catch.claim.id, taken)] if taken else []
    if refused:
        writes.append(sql(f"UPDATE tokimori_runs {BY_KEY} SET state = 'blocked' WHERE id IN (%s)", refused))
    return writes


async def _open_gates(transaction: Transaction, found: Sequence[Row]) -> dict[Incarnation, _Gate]:
    """Gates of jobs without a limit are shared with other claims; those with one are held alone, by who counts."""
    free = sorted({row[_INCARNATION] for row in found if row[RUN_COLUMNS] == 0})
    limited = sorted({row[_INCARNATION] for row in found if row[RUN_COLUMNS]})
    statements = []
    if free:
        statements.append(sql(f"{_GATES} = 0 ORDER BY incarnation {SHARED} SKIP LOCKED", free))
    if limited:
        statements += [
            sql(f"{_GATES} > 0 ORDER BY incarnation FOR UPDATE SKIP LOCKED", limited),
            line.count_places(limited),
        ]
    answers = await transaction.ask(*statements) if statements else []
    rows = [row for answer in answers[: len(statements) - bool(limited)] for row in answer.rows]
    definitions: dict[str, Definition | None] = {}
    gates = {}
    for incarnation, limit, text in rows:
        if text not in definitions:
            definitions[text] = definition_of(text)
        definition = definitions[text]
        if definition is not None:  # else it is for newer nodes alone: its gate stays shut
            gates[incarnation] = _Gate(limit, definition)
    for incarnation, place in line.places_of(answers[-1]).items() if limited else ():
        if incarnation in gates:
            gates[incarnation].running = place.running
    return gates


@dataclass(slots=True)
class _Batch:
    """What a settle writes."""

    freed: Counter[Incarnation] = field(default_factory=Counter)
    runs: dict[RunId, Run] = field(default_factory=dict)
    settled: dict[RunId, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def writes(self) -> Iterator[str]:
        """Move what ended to the history, and rewrite what goes on."""
        yield from line.end([(run, self.settled[run.id]) for run in self.runs.values() if run.state in ENDS])
        for run in self.runs.values():
            if run.state not in ENDS:
                yield sql(_GO_ON, *(getattr(run, name) for name in _CHANGED), *self.settled[run.id], run.id)
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


_CHANGED = ("state", "due", "rank", "failures", "lost", "started", "pid", "ended", "exit_code", "signal", "error")
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


async def _settle(transaction: Transaction, changes: Sequence[Change], by: NodeId) -> list[Verdict] | None:
    """Locked in order: nodes, gates, runs. None: a job was given a limit meanwhile, and its gate is not ours."""
    jobs = {change.incarnation for change in changes}
    nodes = sorted({by, *(change.owner for change in changes)})
    ids = sorted({change.run_id for change in changes})
    going_on = {change.incarnation for change in changes if change.state not in ENDS or change.parks}
    living, _, related, gates, live, counted, exist = await transaction.ask(
        sql(f"SELECT id, state FROM tokimori_nodes WHERE id IN (%s) ORDER BY id {SHARED}", nodes),
        family.lock_bounded_children(change.job_id for change in changes),
        family.lock_children(change.job_id for change in changes),
        line.lock_gates(jobs, all_of=going_on),
        sql(f"SELECT {line.KEPT} FROM tokimori_runs {BY_KEY} WHERE id IN (%s) ORDER BY id FOR UPDATE", ids),
        line.count_places(jobs),
        sql("SELECT incarnation FROM tokimori_jobs WHERE incarnation IN (%s)", sorted(jobs)),
    )
    places = line.places_of(counted)
    if places.keys() - {incarnation for (incarnation,) in gates.rows}:
        return None
    standings = {row[_ID]: _standing(row) for row in live.rows}
    standings |= await _finished(transaction, [run_id for run_id in ids if run_id not in standings])
    batch = _Batch(runs={}, settled={})
    runs = {row[_ID]: run_of(row[:RUN_COLUMNS]) for row in live.rows}
    states = {node_id: NodeState(state) for node_id, state in living.rows}
    existing = {incarnation for (incarnation,) in exist.rows}
    verdicts = []
    for change in changes:
        standing = standings.get(change.run_id)
        verdict = judge(change, standing, by, states)
        if standing is not None and verdict is Verdict.APPLIED:
            run = runs[change.run_id]
            job_exists = change.incarnation in existing
            batch.runs[run.id] = settled_run(run, change, *ending(change, cancel=run.cancel, job_exists=job_exists))
            batch.settled[run.id] = (by, change.token)
            batch.changes.append(change)
            batch.freed[run.incarnation] += 1
            standings[run.id] = standing._replace(running=False, settled_by=by, settled_token=change.token)
        verdicts.append(verdict)
    left = {job: place._replace(running=place.running - batch.freed[job]) for job, place in places.items()}
    parents = [run for run in batch.runs.values() if run.incarnation in existing]
    born = await family.bear(transaction, family.children_of(related, parents), batch.runs.values())
    await transaction.commit(*batch.writes(), *born, *batch.stops(), *line.wake(batch.freed, left))
    return verdicts


def _standing(row: Row) -> Standing:
    run, (settled_by, settled_token) = run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS:]
    return Standing(run.state is RunState.RUNNING, run.node_id, run.token, settled_by, settled_token)


async def _finished(transaction: Transaction, ids: Sequence[RunId]) -> dict[RunId, Standing]:
    """What is not live, because it ended or never was."""
    if not ids:
        return {}
    columns = "id, node_id, token, settled_by, settled_token"
    (found,) = await transaction.ask(sql(f"SELECT {columns} FROM tokimori_history WHERE id IN (%s)", list(ids)))
    return {run_id: Standing(False, *rest) for run_id, *rest in found.rows}
