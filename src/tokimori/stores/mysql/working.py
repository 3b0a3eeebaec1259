"""Claims and settles: each method locks and reads a batch, judges it by the rules, and writes it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId, Lane, NodeId, RunId
from tokimori.model.run import Output, Run
from tokimori.model.settle import PARKED_BY
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores import rows
from tokimori.stores.mysql import family, lines, moves, statements
from tokimori.stores.mysql.admission import MysqlLines, lock_lines, place_of, writes_of
from tokimori.stores.mysql.lines import RATES_OF_QUEUES, SHARED_PAUSED, claimable
from tokimori.stores.mysql.nodes import OWNED
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, insert, sql
from tokimori.stores.rows import ATTEMPT, OUTPUT, RUN, RUN_COLUMNS, Row, names_of
from tokimori.stores.rules.admission import Admission
from tokimori.stores.rules.claiming import claimed_run, first_runs
from tokimori.stores.rules.lines import Freed, LinePlace, turn_of
from tokimori.stores.rules.new_runs import Follower, steps_in
from tokimori.stores.rules.settling import SettleFacts, judged, settled_run
from tokimori.stores.rules.settling import ending as ending_of

_ALIVE = f"SELECT 1 FROM tokimori_nodes WHERE id = %s AND state = 'alive' {SHARED} SKIP LOCKED"
_IN_LINE = """
FROM tokimori_runs FORCE INDEX (tokimori_runs_ready) WHERE state = 'ready' AND lane = {} {} ORDER BY "rank", id LIMIT {}
"""
# No index leads around the runs of a job that others hold: so many are passed by, and no more.
_AROUND = f"""
FROM (SELECT "rank", id, lane, incarnation {_IN_LINE.format("%s", "{}", 1000)}) ready WHERE incarnation NOT IN (%s)
ORDER BY "rank", id LIMIT {{}}"""
_LANE = "CONVERT(one.lane USING ascii) COLLATE ascii_bin"
_HEADS = f"""
SELECT (SELECT CONCAT("rank", ' ', id) {_IN_LINE.format(_LANE, "", 1)}) AS head, one.lane
FROM (SELECT '' AS lane{{}}) one HAVING head <> ''"""
# The limit is read without a lock: it only tells which lock to ask for.
_LOCKED = f"""
SELECT {RUN}, (SELECT max_running FROM tokimori_jobs WHERE incarnation = tokimori_runs.incarnation)
%s FOR UPDATE SKIP LOCKED"""
_THESE = f"FROM tokimori_runs {BY_KEY} WHERE id IN (%s) AND state = 'ready'"
_TAKE = f"""
UPDATE tokimori_runs {BY_KEY} SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = %s,
    claim_id = %s, pid = NULL, started = NULL, exit_code = NULL, "signal" = NULL, error = NULL,
    cpu = NULL, memory = NULL
WHERE id IN (%s)"""
_MOST_AT_ONCE = 500


async def claim(db: Sessions, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
    """See `ServerStore._claim`. It stops after 0.05 s: a node claims again at once, and has beats to send."""
    catch = _Catch(claim, claim.limit, max(2, claim.limit), Freed(), monotonic() + 0.05)
    while isinstance(met := await db.transact(partial(_claim, catch=catch, now=now)), frozenset):
        await db.ask(
            *lines.made(met)
        )  # in a transaction of their own, which waits for concurrent ones, as no claim does
    return list(met.taken), met.moved and not met.over


async def save_outputs(db: Sessions, outputs: Sequence[Output]) -> None:
    """See `Working.save_outputs`. The size comes last: assignments see those before them."""
    newer = "NOT settled AND VALUES(size) >= size"
    keep = ", ".join(f"{name} = IF({newer}, VALUES({name}), {name})" for name in ("head", "tail", "times", "size"))
    for output in sorted(outputs, key=lambda output: output.run_id):
        await db.ask(*_insert_outputs("INSERT", [output], f"ON DUPLICATE KEY UPDATE {keep}", settled=False))


def _insert_outputs(verb: str, outputs: Sequence[Output], rest: str = "", *, settled: bool) -> Iterator[str]:
    for output in outputs:
        yield from insert(verb, "tokimori_outputs", f"{OUTPUT}, settled", [(*rows.output_row(output), settled)], rest)


class _Catch(NamedTuple):
    """A claim under way. `freed`: turns to pass on at its end; it examines none of those runs anew.

    Of many lanes it has read the `heads` once, and looks into the first ones, `wide` in number. `busy`: jobs that
    others have locked, by lane. `moved`: it has sent runs to lines or other lanes. `over`: no more runs are claimable.
    """

    claim: Claim
    batch: int
    wide: int
    freed: Freed
    until: float
    heads: Sequence[tuple[LinePlace, Lane]] | None = None
    taken: Sequence[Claimed] = ()
    busy: Mapping[Lane, Set[Incarnation]] = MappingProxyType({})
    moved: bool = False
    over: bool = False
    places: Mapping[Incarnation, statements.Places] = MappingProxyType({})

    @property
    def wanted(self) -> int:
        """Return how many runs the claim may still take."""
        return self.claim.limit - len(self.taken)


async def _lock_statement(transaction: Transaction, catch: _Catch) -> tuple[_Catch, str, bool]:
    """Return the statement that locks the first ready runs, and if there are certainly more.

    Of many lanes only the earliest are locked, up to the first run of the next. They are found without a lock.
    """
    lanes, batch, wide, behind = catch.claim.lanes, catch.batch, catch.wide, list[LinePlace]()
    if len(lanes) > wide:
        if catch.heads is None:
            ours = "".join(sql(" UNION ALL SELECT %s", lane) for lane in lanes)
            (found,) = await transaction.ask(_HEADS.format(ours))
            catch = catch._replace(heads=sorted((place_of(head), lane) for head, lane in found.rows))
        still = frozenset(lanes)
        heads = [each for each in catch.heads or () if each[1] in still]
        lanes, behind = tuple(lane for _, lane in heads[:wide]), [place for place, _ in heads[wide : wide + 1]]
    upto, some = f'AND "rank" <= {behind[0].rank}' if behind else "", f"{batch} OFFSET {catch.claim.skip}"
    if len(lanes) == 1 and not catch.busy:
        return catch, _LOCKED % _IN_LINE.format(sql("%s", lanes[0]), upto, some), bool(behind)
    firsts = []
    for lane in lanes:
        busy = catch.busy.get(lane)
        around = sql(_AROUND.format(upto, some), lane, sorted(busy)) if busy else ""
        firsts.append(f'(SELECT "rank", id, lane {around or sql(_IN_LINE.format("%s", upto, some), lane)})')
    answers = await transaction.ask(" UNION ALL ".join(firsts)) if firsts else ()
    ready = (row for answer in answers for row in answer.rows if not behind or row[:2] < behind[0])
    chosen, rest = first_runs(ready, batch, batch)
    if behind and len(chosen) < batch:
        catch = catch._replace(wide=4 * wide)
    return catch, _LOCKED % sql(_THESE, chosen), rest or bool(behind)


async def _claim(transaction: Transaction, catch: _Catch, now: Moment) -> _Catch | frozenset[str]:
    """Claim runs. Those that others have locked are passed over. Return semaphores that have to be made first."""
    claim = catch.claim
    before = sql(f'{OWNED} AND r.node_id = %s AND r.claim_id = %s ORDER BY r."rank", r.id', claim.node, claim.id)
    catch, look, rest = await _lock_statement(transaction, catch)
    asked = (sql(_ALIVE, claim.node), before, SHARED_PAUSED, RATES_OF_QUEUES, look)
    node, known, paused, paced, ready = await transaction.ask(*asked)
    rates = frozenset(name for (name,) in paced.rows)
    if not node.rows or known.rows:
        return catch._replace(taken=rows.all_claimed(known.rows) if node.rows else (), over=True)
    catch = catch._replace(claim=replace(claim, lanes=claimable(claim.lanes, paused)), freed=Freed())
    is_first = True  # and of few runs: it does not stay the only one
    while True:
        found = [(rows.run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS]) for row in sorted(ready.rows, key=_in_line)]
        found = [(run, limit) for run, limit in found if run.lane in catch.claim.lanes]
        locked = await lock_lines(transaction, found, rates)
        if locked.unknown:
            return locked.unknown
        catch, writes = _admit(catch, rest, [run for run, _ in found], locked, now)
        if catch.over or (not is_first and monotonic() >= catch.until):
            await transaction.commit(*await lines.serve(transaction, catch.freed, writes, catch.places))
            return catch
        is_first = False
        await transaction.ask(*writes)
        catch, look, rest = await _lock_statement(transaction, catch)
        (ready,) = await transaction.ask(look)


def _admit(catch: _Catch, rest: bool, runs: Sequence[Run], locked: MysqlLines, now: Moment) -> tuple[_Catch, list[str]]:
    """Claim the runs that fit, and send each other run to a line. Return the writes that remain."""
    admission, taken, busy = Admission(locked, freed=catch.freed), dict[RunId, Run](), dict(catch.busy)
    for run in runs:
        if len(taken) == catch.wanted:
            break
        candidate = locked.candidate(run)
        if run.id in locked.strays:
            continue
        if candidate is None and run.lane is not None:
            busy[run.lane] = {run.incarnation, *busy.get(run.lane, ())}
        elif candidate is not None and admission.takes(candidate):
            taken[run.id] = claimed_run(run, catch.claim.node)
    claimed = [Claimed(run=run, definition=locked.gates[run.incarnation].definition) for run in taken.values()]
    places = dict(catch.places)
    for job, gate in locked.gates.items():
        if gate.limit:
            places[job] = statements.Places(gate.limit, admission.running.get(job, gate.running), has_line=True)
    after = catch._replace(
        batch=max(catch.wanted - len(taken), min(16 * catch.batch, _MOST_AT_ONCE)),
        taken=[*catch.taken, *claimed],
        busy=busy,
        moved=catch.moved or bool(admission.refused or locked.strays),
        places=places,
    )
    writes = [sql(_TAKE, catch.claim.node, catch.claim.id, [*taken])] if taken else []
    writes += moves.follow(locked.strays)
    has_more = rest or len(runs) == catch.batch
    return after._replace(over=not (has_more and after.wanted)), [*writes, *writes_of(admission, locked, taken, now)]


_RANK, _ID = (RUN.split(", ").index(column) for column in ('"rank"', "id"))
_in_line = itemgetter(_RANK, _ID)


@dataclass(slots=True)
class _Batch:
    """Writes of a settle."""

    freed: Freed = field(default_factory=Freed)
    runs: dict[RunId, Run] = field(default_factory=dict)
    settled: dict[RunId, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def add(self, run: Run, change: Change, by: NodeId, *, job_exists: bool) -> None:
        """Add a change that holds."""
        self.runs[run.id] = settled_run(run, change, *ending_of(change, cancel=run.cancel, job_exists=job_exists))
        self.settled[run.id] = (by, change.token)
        self.changes.append(change)
        if run.state is RunState.RUNNING:
            self.freed.pass_on(turn_of(run))

    def parks(self) -> dict[Incarnation, str | None]:
        """Return the jobs to park, each with the error of its first failed run."""
        parking = (self.runs[change.run_id] for change in reversed(self.changes) if change.parks)
        return {run.incarnation: run.error for run in parking if run.state is RunState.FAILED}

    def writes(self) -> Iterator[str]:
        """Return the writes that move ended runs to the history, and rewrite the others."""
        yield from moves.end([(run, self.settled[run.id]) for run in self.runs.values() if run.state in ENDS])
        for run in self.runs.values():
            if run.state not in ENDS:
                yield sql(_GO_ON, *_changed(run), *self.settled[run.id], run.id)
        attempts = [rows.attempt_row(change.attempt) for change in self.changes if change.attempt is not None]
        yield from insert("REPLACE", "tokimori_attempts", ATTEMPT, attempts)
        outputs = [change.output for change in self.changes if change.output is not None]
        yield from _insert_outputs("REPLACE", outputs, settled=True)


_CHANGED = names_of(
    "state, due, rank, failures, lost, started, pid, ended, exit_code, signal, error, details, cpu, memory"
)
_changed = rows.run_values(_CHANGED)
_GO_ON = f"""
UPDATE tokimori_runs SET {", ".join(f'"{name}" = %s' for name in _CHANGED)}, settled_by = %s, settled_token = %s
WHERE id = %s"""
_PARK = """
UPDATE tokimori_jobs SET state = 'parked', reason = %s, "by" = %s, next_due = NULL, lane = NULL
WHERE incarnation = %s AND state IN ('enabled', 'finished')"""


class _Besides(NamedTuple):
    """Further locks of a settle, found necessary by a first try, so that runs without semaphores pay nothing.

    Gates of jobs whose runs have keys, semaphores of runs that hold permits, and those of jobs that are parked.
    """

    gates: frozenset[Incarnation] = frozenset()
    holders: frozenset[RunId] = frozenset()
    semaphores: frozenset[str] = frozenset()

    def with_found(self, keyed: Iterable[Incarnation], holders: Iterable[RunId], names: Iterable[str]) -> "_Besides":
        """Return the same and more."""
        return _Besides(self.gates.union(keyed), self.holders.union(holders), self.semaphores.union(names))

    def locks(self) -> list[str]:
        """Return the locks, in order: behind the gates, before the runs."""
        some = self.holders or self.semaphores
        return [lines.lock(self.semaphores, of_runs=self.holders)] if some else []


class _Locked(NamedTuple):
    """Rows that a settle has locked and read: nodes, jobs, runs, and children that may follow."""

    nodes: Mapping[NodeId, NodeState]
    gates: Set[Incarnation]
    places: Mapping[Incarnation, statements.Places]
    jobs: Mapping[Incarnation, str | None]
    """Existing jobs, with the semaphores that they want."""
    semaphores: Sequence[str]
    runs: Mapping[RunId, Run]
    settled: Mapping[RunId, Row]
    """Columns `SETTLED` of live runs, and if they hold permits."""
    children: Answer
    named: Mapping[JobId, Follower]


async def settle(transaction: Transaction, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
    """Settle, and repeat it with further locks if they are found necessary, as for a job that got a limit meanwhile."""
    if not changes:
        return []
    besides = _Besides()
    while True:
        locked = await _lock(transaction, changes, by, besides)
        wanted = _more_locks(locked, changes, besides)
        if wanted == besides and not locked.places.keys() - locked.gates:
            break
        besides = wanted
        await transaction.undo()
    batch, verdicts = await _judge(transaction, locked, changes, by)
    await _write(transaction, locked, batch, sorted(besides.holders & batch.runs.keys()))
    return verdicts


async def _lock(transaction: Transaction, changes: Sequence[Change], by: NodeId, besides: _Besides) -> _Locked:
    """Lock the rows for a settle in this order: nodes, jobs, semaphores, runs."""
    named = await family.lock_named(transaction, steps_in(changes))
    jobs = {change.incarnation for change in changes}
    nodes = sorted({by, *(change.owner for change in changes)})
    ids = sorted({change.run_id for change in changes})
    going_on = {change.incarnation for change in changes if change.state not in ENDS or change.parks}
    living, _, children, gates, *semaphores, live, counted, existing = await transaction.ask(
        sql(f"SELECT id, state FROM tokimori_nodes WHERE id IN (%s) ORDER BY id {SHARED}", nodes),
        family.lock_bounded_children(change.job_id for change in changes),
        family.lock_children(change.job_id for change in changes),
        statements.lock_gates(jobs, all_of=going_on | besides.gates),
        *besides.locks(),
        sql(f"SELECT {moves.KEPT}, holds FROM tokimori_runs {BY_KEY} WHERE id IN (%s) ORDER BY id FOR UPDATE", ids),
        statements.count_places(jobs),
        sql("SELECT incarnation, semaphores FROM tokimori_jobs WHERE incarnation IN (%s)", sorted(jobs)),
    )
    return _Locked(
        nodes={node_id: NodeState(state) for node_id, state in living.rows},
        gates={incarnation for (incarnation,) in gates.rows},
        places=statements.places_of(counted),
        jobs=dict(existing.rows),
        semaphores=[name for answer in semaphores for (name,) in answer.rows],
        runs={row[_ID]: rows.run_of(row[:RUN_COLUMNS]) for row in live.rows},
        settled={row[_ID]: row[RUN_COLUMNS:] for row in live.rows},
        children=children,
        named=named,
    )


def _more_locks(locked: _Locked, changes: Sequence[Change], besides: _Besides) -> _Besides:
    """Return the locks that the rows found call for: those that are held, or more."""
    runs = locked.runs.values()
    return besides.with_found(
        (run.incarnation for run in runs if run.concurrency_key is not None and run.incarnation not in locked.gates),
        (run_id for run_id, (*_, holds) in locked.settled.items() if holds),
        # The runs of a job that parks leave the lines in which they stand.
        {name for each in changes if each.parks for name in lines.names_in(locked.jobs.get(each.incarnation))},
    )


async def _judge(
    transaction: Transaction, locked: _Locked, changes: Sequence[Change], by: NodeId
) -> tuple[_Batch, list[Verdict]]:
    """Return the changes that take effect, and the verdict on each change."""
    batch = _Batch()
    facts = {
        run_id: SettleFacts(run.state, run.node_id, run.token, *locked.settled[run_id][:2])
        for run_id, run in locked.runs.items()
    }
    facts |= await _finished(transaction, sorted({change.run_id for change in changes} - facts.keys()))
    verdicts = judged(changes, facts, by, locked.nodes)
    for change, verdict in zip(changes, verdicts, strict=True):
        if verdict is Verdict.APPLIED:
            batch.add(locked.runs[change.run_id], change, by, job_exists=change.incarnation in locked.jobs)
    return batch, verdicts


async def _write(transaction: Transaction, locked: _Locked, batch: _Batch, given_back: Sequence[RunId]) -> None:
    """Write the changes, the permits of these runs and their children, and wake the next runs."""
    freed = batch.freed
    childless = {change.run_id for change in batch.changes if change.childless}
    parents = [run for run in batch.runs.values() if run.incarnation in locked.jobs and run.id not in childless]
    settled = batch.runs.values()
    at = {change.run_id: change.ended for change in batch.changes if change.spawns}
    ended = [replace(run, ended=at[run.id]) if run.id in at and run.ended is None else run for run in settled]
    children = family.born_after(locked.children, parents, ended, steps_in(batch.changes), locked.named)
    resumed = {change.run_id for change in batch.changes if change.resumes}  # they were not active
    born = await family.add_children(transaction, children, (run for run in settled if run.id not in resumed))
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


def _give_back(runs: Sequence[RunId]) -> Iterator[str]:
    if runs:
        yield sql("DELETE t FROM tokimori_permits t FORCE INDEX (tokimori_permits_run) WHERE t.run_id IN (%s)", [*runs])
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET holds = false WHERE id IN (%s)", [*runs])


async def _finished(transaction: Transaction, ids: Sequence[RunId]) -> dict[RunId, SettleFacts]:
    """Return the facts of the runs among these that have ended. A run that never existed is left out."""
    if not ids:
        return {}
    columns = "id, node_id, token, settled_by, settled_token"
    (found,) = await transaction.ask(sql(f"SELECT {columns} FROM tokimori_history WHERE id IN (%s)", list(ids)))
    return {run_id: SettleFacts("", *rest) for run_id, *rest in found.rows}
