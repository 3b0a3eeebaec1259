"""From ready runs to ended ones: each method locks and reads a batch, judges it by the rules, and writes the batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, NodeId, RunId
from tokimori.model.run import Output, Run
from tokimori.model.settle import PARKED_BY
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.mysql import ending, family, limits, lines, moves
from tokimori.stores.mysql.admission import MysqlLines, lock_lines, place_of, writes_of
from tokimori.stores.mysql.nodes import OWNED
from tokimori.stores.mysql.pauses import SHARED_PAUSED, claimable
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, insert, sql
from tokimori.stores.rows import (
    ATTEMPT,
    OUTPUT,
    RUN,
    RUN_COLUMNS,
    Row,
    all_claimed,
    attempt_row,
    names_of,
    output_row,
    run_of,
    run_values,
)
from tokimori.stores.rules.admission import Admission
from tokimori.stores.rules.claiming import MOST_EXAMINED, claimed_run, first_runs
from tokimori.stores.rules.lines import Place
from tokimori.stores.rules.settling import Standing, judged, settled_run
from tokimori.stores.rules.settling import ending as ending_of
from tokimori.stores.rules.turns import Freed, turn_of

_ALIVE = f"SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive' {SHARED} SKIP LOCKED"
_IN_LINE = """
FROM tokimori_runs FORCE INDEX (tokimori_runs_ready) WHERE state = 'ready' AND lane = {} {} ORDER BY "rank", id LIMIT {}
"""
_HEADS = f"""
SELECT (SELECT CONCAT("rank", ' ', id) {_IN_LINE}) AS head, one.lane FROM (SELECT '' AS lane{{}}) one HAVING head <> ''
"""
_LANE = "CONVERT(one.lane USING ascii) COLLATE ascii_bin"
# The limit is read without a lock: it only tells which lock to ask for.
_LOCKED = f"""
SELECT {RUN}, (SELECT max_running FROM tokimori_jobs WHERE incarnation = tokimori_runs.incarnation)
%s FOR UPDATE SKIP LOCKED"""
_THESE = f"FROM tokimori_runs {BY_KEY} WHERE id IN (%s) AND state = 'ready'"
_TAKE = f"""
UPDATE tokimori_runs {BY_KEY} SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = %s,
    claim_id = %s, pid = NULL, started = NULL, exit_code = NULL, "signal" = NULL, error = NULL
WHERE id IN (%s)"""
_MOST_AT_ONCE = 1000


async def claim(db: Sessions, claim: Claim, now: Moment) -> list[Claimed]:
    """In as many transactions as runs are sent to the lines, none begun after 0.3 s: what one has written stays."""
    catch, until = _Catch(claim, claim.limit, Freed()), monotonic() + 0.3
    while not catch.over and monotonic() < until:
        met = await db.transact(partial(_claim, catch=catch, now=now))
        if isinstance(met, _Catch):
            catch = met
        else:  # by themselves: who makes one of them at the same time is waited for, which a claim never does
            await db.ask(*lines.made(met))
    return list(catch.taken)


async def save_outputs(db: Sessions, outputs: Sequence[Output]) -> None:
    """See `Working.save_outputs`. The size comes last: assignments see those before them."""
    newer = "NOT settled AND VALUES(size) >= size"
    keep = ", ".join(f"{name} = IF({newer}, VALUES({name}), {name})" for name in ("head", "tail", "size"))
    for output in sorted(outputs, key=lambda output: output.run_id):
        await db.ask(*_insert_outputs("INSERT", [output], f"ON DUPLICATE KEY UPDATE {keep}", settled=False))


def _insert_outputs(verb: str, outputs: Sequence[Output], rest: str = "", *, settled: bool) -> Iterator[str]:
    for output in outputs:
        yield from insert(verb, "tokimori_outputs", f"{OUTPUT}, settled", [(*output_row(output), settled)], rest)


class _Catch(NamedTuple):
    """A claim under way. `freed`: whose turns are passed on when a transaction ends; it examines none of those anew."""

    claim: Claim
    batch: int
    freed: Freed
    taken: Sequence[Claimed] = ()
    busy: Set[Incarnation] = frozenset()
    examined: int = 0
    over: bool = False
    places: Mapping[Incarnation, limits.Places] = MappingProxyType({})

    @property
    def wanted(self) -> int:
        """How many runs the claim may still take."""
        return self.claim.limit - len(self.taken)


class _Look(NamedTuple):
    """The statement that locks the first ready runs, so many at most, and whether there are more in any case."""

    statement: str
    number: int
    rest: bool


async def _look(transaction: Transaction, catch: _Catch) -> _Look:
    """Of many lanes as many as it may take runs are read, without a lock, up to the head of the next: all it judges."""
    lanes, batch, most, behind = catch.claim.lanes, catch.batch, max(2, catch.claim.limit), list[Place]()
    around = sql("AND incarnation NOT IN (%s)", sorted(catch.busy)) if catch.busy else ""
    if len(lanes) > most:
        ours = "".join(sql(" UNION ALL SELECT %s", lane) for lane in lanes)
        (heads,) = await transaction.ask(_HEADS.format(_LANE, around, 1, ours))
        places = sorted((place_of(head), lane) for head, lane in heads.rows)
        lanes, behind = tuple(lane for _, lane in places[:most]), [place for place, _ in places[most : most + 1]]
    if len(lanes) == 1:
        some = f"{batch} OFFSET {catch.claim.skip}"
        return _Look(_LOCKED % _IN_LINE.format(sql("%s", lanes[0]), around, some), batch, rest=False)
    each = min(batch, 4 * batch // max(1, len(lanes)))
    firsts = [f'(SELECT "rank", id, lane {_IN_LINE.format(sql("%s", lane), around, each)})' for lane in lanes]
    answers = await transaction.ask(" UNION ALL ".join(firsts)) if firsts else ()
    rows = (row for answer in answers for row in answer.rows if not behind or row[:2] < behind[0])
    chosen, rest = first_runs(rows, each, batch)
    return _Look(_LOCKED % sql(_THESE, chosen), len(chosen), rest or bool(behind))


async def _claim(transaction: Transaction, catch: _Catch, now: Moment) -> _Catch | frozenset[str]:
    """Nothing is waited for: what is locked stays ready. Semaphores that are to be made first, where there are any."""
    claim, most = catch.claim, catch.examined + _MOST_AT_ONCE
    before = sql(f'{OWNED} AND r.node_id = %s AND r.claim_id = %s ORDER BY r."rank", r.id', claim.node, claim.id)
    look = await _look(transaction, catch)
    asked = (sql(_ALIVE, claim.node), before, SHARED_PAUSED, look.statement)
    node, known, paused, ready = await transaction.ask(*asked)
    if not node.rows or (known.rows and not catch.taken):
        return catch._replace(taken=all_claimed(known.rows) if node.rows else catch.taken, over=True)
    catch = catch._replace(claim=replace(claim, lanes=claimable(claim.lanes, paused)), freed=Freed(), places={})
    while True:
        found = [(run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS]) for row in sorted(ready.rows, key=_in_line)]
        found = [(run, limit) for run, limit in found if run.lane in catch.claim.lanes]
        locked = await lock_lines(transaction, found)
        if locked.unknown:
            return locked.unknown
        catch, writes = _admit(catch, look, [run for run, _ in found], locked, now)
        if catch.over or catch.examined >= most:
            await transaction.commit(*await lines.serve(transaction, catch.freed, writes, catch.places))
            return catch
        await transaction.ask(*writes)
        look = await _look(transaction, catch)
        (ready,) = await transaction.ask(look.statement)


def _admit(
    catch: _Catch, look: _Look, runs: Sequence[Run], locked: MysqlLines, now: Moment
) -> tuple[_Catch, list[str]]:
    """Take what fits, send what does not to its line; what is still to be written."""
    admission, taken, busy = Admission(locked, freed=catch.freed), dict[RunId, Run](), set(catch.busy)
    for run in runs:
        if len(taken) == catch.wanted:
            break
        candidate = locked.candidate(run)
        if run.id in locked.strays:
            continue
        if candidate is None:
            busy.add(run.incarnation)
        elif admission.takes(candidate):
            taken[run.id] = claimed_run(run, catch.claim.node)
    claimed = [Claimed(run=run, definition=locked.gates[run.incarnation].definition) for run in taken.values()]
    places = dict(catch.places)
    for job, gate in locked.gates.items():
        if gate.limit:
            places[job] = limits.Places(gate.limit, admission.running.get(job, gate.running), has_line=True)
    after = catch._replace(
        batch=max(catch.wanted - len(taken), min(4 * catch.batch, _MOST_AT_ONCE)),
        taken=[*catch.taken, *claimed],
        busy=busy,
        examined=catch.examined + look.number,
        places=places,
    )
    is_last = after.examined >= catch.claim.limit + MOST_EXAMINED or not (look.rest or len(runs) == catch.batch)
    writes = [sql(_TAKE, catch.claim.node, catch.claim.id, [*taken])] if taken else []
    writes += moves.follow(locked.strays)
    return after._replace(over=is_last or not after.wanted), [*writes, *writes_of(admission, taken, now)]


_RANK, _ID = (RUN.split(", ").index(column) for column in ('"rank"', "id"))
_in_line = itemgetter(_RANK, _ID)


@dataclass(slots=True)
class _Batch:
    """What a settle writes."""

    freed: Freed = field(default_factory=Freed)
    runs: dict[RunId, Run] = field(default_factory=dict)
    settled: dict[RunId, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def add(self, run: Run, change: Change, by: NodeId, *, job_exists: bool) -> None:
        """A change that holds."""
        self.runs[run.id] = settled_run(run, change, *ending_of(change, cancel=run.cancel, job_exists=job_exists))
        self.settled[run.id] = (by, change.token)
        self.changes.append(change)
        self.freed.pass_on(turn_of(run))

    def parks(self) -> dict[Incarnation, str | None]:
        """The jobs that park, each with the error of its first run that failed."""
        parking = (self.runs[change.run_id] for change in reversed(self.changes) if change.parks)
        return {run.incarnation: run.error for run in parking if run.state is RunState.FAILED}

    def writes(self) -> Iterator[str]:
        """Move what ended to the history, and rewrite what goes on."""
        yield from ending.end([(run, self.settled[run.id]) for run in self.runs.values() if run.state in ENDS])
        for run in self.runs.values():
            if run.state not in ENDS:
                yield sql(_GO_ON, *_changed(run), *self.settled[run.id], run.id)
        attempts = [attempt_row(change.attempt) for change in self.changes if change.attempt is not None]
        yield from insert("REPLACE", "tokimori_attempts", ATTEMPT, attempts)
        outputs = [change.output for change in self.changes if change.output is not None]
        yield from _insert_outputs("REPLACE", outputs, settled=True)


_CHANGED = names_of("state, due, rank, failures, lost, started, pid, ended, exit_code, signal, error, details")
_changed = run_values(_CHANGED)
_GO_ON = f"""
UPDATE tokimori_runs SET {", ".join(f'"{name}" = %s' for name in _CHANGED)}, settled_by = %s, settled_token = %s
WHERE id = %s"""
_PARK = """
UPDATE tokimori_jobs SET state = 'parked', reason = %s, "by" = %s, next_due = NULL, lane = NULL
WHERE incarnation = %s AND state IN ('enabled', 'finished')"""


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
        return [lines.lock(self.semaphores, of_runs=self.holders)] if some else []


class _Locked(NamedTuple):
    """What a settle has locked and read: by node, by job, of runs, and the children that may follow."""

    nodes: Mapping[NodeId, NodeState]
    gates: Set[Incarnation]
    places: Mapping[Incarnation, limits.Places]
    jobs: Mapping[Incarnation, str | None]
    """Those that exist, with the semaphores that they want."""
    semaphores: Sequence[str]
    runs: Mapping[RunId, Run]
    settled: Mapping[RunId, Row]
    """Of the live ones the columns `SETTLED`, and whether they hold permits."""
    children: Answer


async def settle(transaction: Transaction, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
    """Anew with what is to be locked besides, where that was found: so too where a job was given a limit meanwhile, and
    its gate is not ours.
    """
    if not changes:
        return []
    besides = _Besides()
    while True:
        locked = await _lock(transaction, changes, by, besides)
        wanted = _wanted(locked, changes, besides)
        if wanted == besides and not locked.places.keys() - locked.gates:
            break
        besides = wanted
        await transaction.undo()
    batch, verdicts = await _judge(transaction, locked, changes, by)
    await _write(transaction, locked, batch, sorted(besides.holders & batch.runs.keys()))
    return verdicts


async def _lock(transaction: Transaction, changes: Sequence[Change], by: NodeId, besides: _Besides) -> _Locked:
    """In order: nodes, gates, semaphores, runs."""
    jobs = {change.incarnation for change in changes}
    nodes = sorted({by, *(change.owner for change in changes)})
    ids = sorted({change.run_id for change in changes})
    going_on = {change.incarnation for change in changes if change.state not in ENDS or change.parks}
    living, _, children, gates, *semaphores, live, counted, existing = await transaction.ask(
        sql(f"SELECT id, state FROM tokimori_nodes WHERE id IN (%s) ORDER BY id {SHARED}", nodes),
        family.lock_bounded_children(change.job_id for change in changes),
        family.lock_children(change.job_id for change in changes),
        limits.lock_gates(jobs, all_of=going_on | besides.gates),
        *besides.locks(),
        sql(f"SELECT {ending.KEPT}, holds FROM tokimori_runs {BY_KEY} WHERE id IN (%s) ORDER BY id FOR UPDATE", ids),
        limits.count_places(jobs),
        sql("SELECT incarnation, semaphores FROM tokimori_jobs WHERE incarnation IN (%s)", sorted(jobs)),
    )
    return _Locked(
        nodes={node_id: NodeState(state) for node_id, state in living.rows},
        gates={incarnation for (incarnation,) in gates.rows},
        places=limits.places_of(counted),
        jobs=dict(existing.rows),
        semaphores=[name for answer in semaphores for (name,) in answer.rows],
        runs={row[_ID]: run_of(row[:RUN_COLUMNS]) for row in live.rows},
        settled={row[_ID]: row[RUN_COLUMNS:] for row in live.rows},
        children=children,
    )


def _wanted(locked: _Locked, changes: Sequence[Change], besides: _Besides) -> _Besides:
    """What is to be locked besides: the same, or more."""
    runs = locked.runs.values()
    return besides.with_found(
        (run.incarnation for run in runs if run.concurrency_key is not None and run.incarnation not in locked.gates),
        (run_id for run_id, (*_, holds) in locked.settled.items() if holds),
        _wanted_by_parking(changes, locked.jobs),
    )


async def _judge(
    transaction: Transaction, locked: _Locked, changes: Sequence[Change], by: NodeId
) -> tuple[_Batch, list[Verdict]]:
    """Those that hold, and the verdicts on all."""
    batch = _Batch()
    standings = {
        run_id: Standing(run.state is RunState.RUNNING, run.node_id, run.token, *locked.settled[run_id][:2])
        for run_id, run in locked.runs.items()
    }
    standings |= await _finished(transaction, sorted({change.run_id for change in changes} - standings.keys()))
    verdicts = judged(changes, standings, by, locked.nodes)
    for change, verdict in zip(changes, verdicts, strict=True):
        if verdict is Verdict.APPLIED:
            batch.add(locked.runs[change.run_id], change, by, job_exists=change.incarnation in locked.jobs)
    return batch, verdicts


async def _write(transaction: Transaction, locked: _Locked, batch: _Batch, given_back: Sequence[RunId]) -> None:
    """What the changes say, the permits of these runs, their children; and who is next."""
    freed = batch.freed
    childless = {change.run_id for change in batch.changes if change.childless}
    parents = [run for run in batch.runs.values() if run.incarnation in locked.jobs and run.id not in childless]
    born = await family.bear(transaction, family.born_after(locked.children, parents), batch.runs.values())
    writes = [*batch.writes(), *_give_back(given_back), *born]
    parks = sorted(batch.parks().items())
    if given_back or parks:
        freed.semaphores.update(locked.semaphores)
    left = {job: each._replace(running=each.running - freed.places[job]) for job, each in locked.places.items()}
    for job, error in parks:
        *_, stopped = await transaction.ask(*writes, moves.begin_parking(job), sql(_PARK, error, PARKED_BY, job))
        writes = []
        transaction.woke = transaction.wakes
        if stopped.changed and transaction.wakes:
            await moves.step(transaction, job, freed)
    served = await lines.serve(transaction, freed, writes, left)
    transaction.woke &= len(batch.changes) == 1  # a refused batch comes again by halves
    await transaction.commit(*served)


def _wanted_by_parking(changes: Sequence[Change], semaphores: Mapping[Incarnation, str | None]) -> set[str]:
    """The runs of a job that parks leave the lines in which they stand."""
    parking = {change.incarnation for change in changes if change.parks}
    return {name for job in parking for name in lines.names_in(semaphores.get(job))}


def _give_back(runs: Sequence[RunId]) -> Iterator[str]:
    if runs:
        yield sql("DELETE t FROM tokimori_permits t FORCE INDEX (tokimori_permits_run) WHERE t.run_id IN (%s)", [*runs])
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET holds = false WHERE id IN (%s)", [*runs])


async def _finished(transaction: Transaction, ids: Sequence[RunId]) -> dict[RunId, Standing]:
    """What is not live, because it ended or never was."""
    if not ids:
        return {}
    columns = "id, node_id, token, settled_by, settled_token"
    (found,) = await transaction.ask(sql(f"SELECT {columns} FROM tokimori_history WHERE id IN (%s)", list(ids)))
    return {run_id: Standing(False, *rest) for run_id, *rest in found.rows}
