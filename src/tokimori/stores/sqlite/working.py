"""Claims and settles: each method reads a batch, judges it by the rules, and writes it."""

import heapq
import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache
from itertools import islice
from typing import Final

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.claim_rate import stored_rate
from tokimori.model.ids import Incarnation, Lane, NodeId, RunId
from tokimori.model.lanes import open_lanes, queue_of
from tokimori.model.run import Output, encode_details
from tokimori.model.semaphores import is_rate_alone, made_with, rate_of_queue
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.semaphores import permit_of
from tokimori.ports.working import LARGE, Change, Claim, Claimed, Verdict
from tokimori.stores import rows
from tokimori.stores.rows import ATTEMPT, CLAIMED, OUTPUT, Row, json_text, marks
from tokimori.stores.rules.admission import Admission, Candidate, in_queue
from tokimori.stores.rules.claiming import MOST_EXAMINED
from tokimori.stores.rules.lines import MOST_MOVED, Freed, Key, LinePlace
from tokimori.stores.rules.new_runs import steps_in
from tokimori.stores.rules.rates import Rated, Turns
from tokimori.stores.rules.settling import SettleFacts, ending, judged
from tokimori.stores.sqlite import lines
from tokimori.stores.sqlite.family import add_children
from tokimori.stores.sqlite.jobs import park
from tokimori.stores.sqlite.lines import (
    UNITS,
    first_program,
    head_of,
    head_of_key,
    rated,
    running_of_key,
    take,
    units_in,
    write_turns,
)
from tokimori.stores.sqlite.moves import FOLLOW, forget
from tokimori.stores.sqlite.nodes import state_of

Ready = tuple[int, RunId, Incarnation, int, int, str | None, bool, int]
"""Ready run: rank, id, incarnation, its job's limit, and the job's running runs if it has one. With a key or semaphores
also lane, key, limit of keys and semaphores, as JSON. Then if it is to move after a change of its job, and the length
of its payload, which each write of the row writes anew."""
_HOLD = """
INSERT INTO tokimori_permits (id, semaphore, node_id, run_id, weight, "rank", token, since)
SELECT ?, ?, node_id, id, ?, "rank", token, ? FROM tokimori_runs WHERE id = ?"""


class SqliteLines(Struct):
    """See `Lines`. Counts of running runs come with the ready ones."""

    db: sqlite3.Connection
    _running: dict[Incarnation, int] = field(default_factory=dict)
    _rates: dict[str, tuple[str | None, Turns]] = field(default_factory=dict)

    def candidate(self, ready: Ready) -> Candidate:
        """Return a ready run, as it is judged."""
        rank, run_id, incarnation, limit, running, stated, *_ = ready
        self._running[incarnation] = running
        if stated is None:
            return Candidate(rank, run_id, incarnation, None, limit)
        lane, key, max_per_key, semaphores = json.loads(stated)
        return Candidate(rank, run_id, incarnation, lane, limit, key, max_per_key or 1, units_in(semaphores))

    def running(self, incarnation: Incarnation) -> int:
        return self._running[incarnation]

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        return running_of_key(self.db, *key), head_of_key(self.db, *key)

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        made = 'INSERT INTO tokimori_semaphores (name, "limit", rate) VALUES (?, ?, ?) ON CONFLICT DO NOTHING'
        self.db.execute(made, (name, *made_with(name)))
        free, rate, *turns = self.db.execute(UNITS, (name,)).fetchone()
        self._rates[name] = rate, Turns(*turns)
        return free, None if is_rate_alone(name) else first_program(self.db, name)

    def rated(self, name: str) -> Rated | None:
        text, turns = self._rates[name]
        rate = stored_rate(text)
        return None if rate is None else rated(self.db, name, rate, turns)

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        return None if lane is None else head_of(self.db, name, lane)


def hold(db: sqlite3.Connection, held: Sequence[tuple[RunId, str, int]], now: Moment) -> None:
    """Write the permits of claimed runs, after these: run, semaphore, weight."""
    db.executemany(_HOLD, [(permit_of(run_id, name), name, weight, now, run_id) for run_id, name, weight in held])
    db.executemany("UPDATE tokimori_runs SET holds = 1 WHERE id = ?", {(run_id,) for run_id, *_ in held})


_READY = """
SELECT r."rank", r.id, r.incarnation, j.max_running,
    CASE WHEN j.max_running = 0 THEN 0 ELSE (
        SELECT count(*) FROM tokimori_runs WHERE incarnation = r.incarnation AND state = 'running') END,
    CASE WHEN r.concurrency_key IS NOT NULL OR j.semaphores IS NOT NULL
        THEN json_array(r.lane, r.concurrency_key, j.max_per_key, j.semaphores) END,
    EXISTS (SELECT 1 FROM tokimori_moves
        WHERE incarnation = r.incarnation AND coalesce(forced_lane, j.lane) IS NOT r.lane),
    coalesce(length(r.payload), 0)
FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
WHERE r.state = 'ready' AND r.lane = ? ORDER BY r."rank", r.id"""
_READY_BY_RATE = _READY.replace("WHEN r.concurrency_key IS NOT NULL OR j.semaphores IS NOT NULL", "WHEN true")
_HEADS = """
SELECT r."rank", r.id, r.lane FROM json_each(?) l JOIN tokimori_runs r ON r.id = (
    SELECT id FROM tokimori_runs WHERE state = 'ready' AND lane = l.value ORDER BY "rank", id LIMIT 1)"""
_TAKE = """
UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = ?, claim_id = ?,
    pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL, cpu = NULL, memory = NULL, holds = NULL
WHERE id IN (SELECT value FROM json_each(?))"""
_SETTLE_FACTS = """
SELECT r.id, r.state, r.node_id, r.token, r.settled_by, r.settled_token, r.cancel, r.incarnation,
    EXISTS (SELECT 1 FROM tokimori_jobs WHERE incarnation = r.incarnation), r.concurrency_key, r.holds
FROM tokimori_runs r WHERE r.id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT id, state, node_id, token, settled_by, settled_token, NULL, incarnation, 0, NULL, NULL
FROM tokimori_history WHERE id IN (SELECT value FROM json_each(?1))"""
_OUTCOME = 'due, "rank", failures, lost, started, pid, exit_code, "signal", details, cpu, memory'
_SETTLED = ("state", "error", "ended", "result", "settled_by", "settled_token", *_OUTCOME.split(", "))
"""Columns that a settle writes, in the order of `_settled_row`, before the id."""
_KEPT = [column for column in rows.RUN.split(", ") if column not in {*_SETTLED, "blocked_on"}]
"""Columns that it leaves as they are."""
_OF_THE_RUN = frozenset({"due", '"rank"', "failures", "lost"})
"""Columns that a success leaves as they are (`Change`), unless it ends a wait: then they are those from before it."""
_APPLIED: Final = Verdict.APPLIED
_RUNNING: Final = RunState.RUNNING
_SUCCEEDED: Final = RunState.SUCCEEDED
_outcome_row = rows.row_writer(Change, "token", *rows.names_of(_OUTCOME), "run_id", details=encode_details)


@lru_cache(maxsize=64)
def _writing(differing: tuple[str, ...], kept: frozenset[str], *, ends: bool) -> str:
    """Return one statement that writes a whole batch: each step gives up the GIL, and that costs time.

    Columns that differ come as JSON. A value of all runs is a parameter, as reading JSON costs time, too.
    """
    new = {name: f"change.value ->> {differing.index(name)}" if name in differing else "?" for name in _SETTLED}
    new |= {name: f"run.{name}" for name in kept}
    # If a settle knows none of these, those of the run stay.
    new |= {column: f"coalesce({new[column]}, run.{column})" for column in ("started", "pid", "details")}
    if not ends:
        return f"""
        UPDATE tokimori_runs AS run SET {", ".join(f"{column} = {value}" for column, value in new.items())}
        FROM json_each(?) AS change WHERE run.id = change.value ->> {len(differing)}"""
    return f"""
    INSERT INTO tokimori_history ({", ".join([*new, *_KEPT])})
    SELECT {", ".join([*new.values(), *(f"run.{column}" for column in _KEPT)])}
    FROM json_each(?) AS change CROSS JOIN tokimori_runs AS run ON run.id = change.value ->> {len(differing)}"""


def claim(db: sqlite3.Connection, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
    if state_of(db, claim.node) is not NodeState.ALIVE:
        return [], False
    has_rest = not _claimed_before(db, claim) and _take(db, claim, now)
    return _claimed_before(db, claim), has_rest


def _claimed_before(db: sqlite3.Connection, claim: Claim) -> list[Claimed]:
    """Return the runs that the same claim got before a lost answer, if its node still owns them."""
    ours = db.execute(f'{CLAIMED} AND r.node_id = ? AND r.claim_id = ? ORDER BY r."rank", r.id', (claim.node, claim.id))
    return rows.all_claimed(ours.fetchall())


def _take(db: sqlite3.Connection, claim: Claim, now: Moment) -> bool:
    """Claim the ready runs that fit, in order, and send each other run to a line. Return if a bound cut this short."""
    known, taken, misplaced, large, is_cut = SqliteLines(db), list[RunId](), list[RunId](), 0, False
    admission, most = Admission(known), claim.limit + MOST_EXAMINED
    paused, rates = lines.stops_and_rates(db)
    with closing(_ready(db, open_lanes(claim.lanes, paused), claim.skip, rates)) as ready:
        for seen, row in enumerate(ready):
            is_cut = seen == most or len(misplaced) == MOST_MOVED or large >= LARGE
            if is_cut or len(taken) == claim.limit:
                break
            _, run_id, _, limit, _, stated, moves, size = row
            large += size
            if moves:
                misplaced.append(run_id)
            elif (limit == 0 and stated is None) or admission.takes(
                in_queue(known.candidate(row), rates)
            ):  # most have no constraint
                taken.append(run_id)
    db.executemany(FOLLOW, [(run_id,) for run_id in misplaced])
    db.execute(_TAKE, (claim.node, claim.id, json_text(taken)))
    refused = [(refused_by or None, run_id) for refused_by, run_id in admission.refused]
    db.executemany("UPDATE tokimori_runs SET state = 'blocked', blocked_on = ? WHERE id = ?", refused)
    hold(db, admission.held, now)
    for name, units in admission.taken.items():
        take(db, name, units)
    for name, turns in admission.turns.items():
        write_turns(db, name, None, turns)
    lines.serve(db, admission.freed)
    return is_cut


def _ready(
    db: sqlite3.Connection, lanes: Sequence[Lane], skip: int, rates: Collection[str]
) -> Generator[Ready, None, None]:
    """Yield the ready runs of all these lanes in order of rank. No more is read than the caller takes."""
    heads = db.execute(_HEADS, (json_text(lanes),)).fetchall()
    with ExitStack() as stack:
        walks = [stack.enter_context(closing(_of_lane(db, *head, rates=rates))) for head in heads]
        runs = (row for row in heapq.merge(*walks) if len(row) > 2)
        yield from islice(runs, skip, None)


def _of_lane(
    db: sqlite3.Connection, rank: int, run_id: RunId, lane: Lane, *, rates: Collection[str]
) -> Generator[Row, None, None]:
    """Yield the place of the first ready run of a lane, then its runs. The cursor is opened with the first run."""
    yield rank, run_id
    ready = _READY_BY_RATE if rate_of_queue(queue_of(lane)) in rates else _READY
    with closing(db.execute(ready, (lane,))) as cursor:
        yield from cursor


class _Held(Struct, frozen=True, gc=False):
    """A run as `settle` finds it."""

    facts: SettleFacts
    cancel: str | None
    incarnation: Incarnation
    job_exists: bool
    key: str | None
    holds: bool


def settle(db: sqlite3.Connection, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
    held = _held(db, [change.run_id for change in changes])
    nodes = {node: state_of(db, node) for node in {by, *(change.owner for change in changes)}}
    states = {node: state for node, state in nodes.items() if state is not None}
    verdicts = judged(changes, {run_id: run.facts for run_id, run in held.items()}, by, states)
    applied = [change for change, verdict in zip(changes, verdicts, strict=True) if verdict is _APPLIED]
    found = [(change, held[change.run_id]) for change in applied]
    accepted = [(change, *ending(change, cancel=run.cancel, job_exists=run.job_exists)) for change, run in found]
    _write(db, accepted, by)
    ended = [change.run_id for change, state, _ in accepted if state in ENDS and not change.childless]
    add_children(db, ended, steps_in(applied), now)
    running = (change.run_id for change in applied if held[change.run_id].facts.state == _RUNNING)
    freed = _freed(db, {run_id: held[run_id] for run_id in running})
    for change, state, error in accepted:
        if change.parks and state is RunState.FAILED:
            park(db, change.incarnation, error, freed)
    lines.serve(db, freed)
    return verdicts


def _freed(db: sqlite3.Connection, settled: dict[RunId, _Held]) -> Freed:
    """Return the places, keys and units that these runs held."""
    holders = [run_id for run_id, run in settled.items() if run.holds]
    return Freed(
        places=Counter(run.incarnation for run in settled.values()),
        keys={(run.incarnation, run.key) for run in settled.values() if run.key is not None},
        semaphores=lines.give_back(db, holders) if holders else set(),
    )


def _held(db: sqlite3.Connection, runs: Sequence[RunId]) -> dict[RunId, _Held]:
    return {
        run_id: _Held(SettleFacts(state, *rest), cancel, life, bool(job_exists), key, bool(holds))
        for run_id, state, *rest, cancel, life, job_exists, key, holds in db.execute(_SETTLE_FACTS, (json_text(runs),))
    }


def _write(db: sqlite3.Connection, accepted: Sequence[tuple[Change, RunState, str | None]], by: NodeId) -> None:
    settled = [
        (state is _SUCCEEDED and not change.resumes, _settled_row(change, state, error, by))
        for change, state, error in accepted
    ]
    _write_rows(db, [row for is_plain, row in settled if is_plain], ends=True, kept=_OF_THE_RUN)
    if rest := [row for is_plain, row in settled if not is_plain]:
        _write_rows(db, [row for row in rest if row[0] not in ENDS], ends=False)
        _write_rows(db, [row for row in rest if row[0] in ENDS], ends=True)
    forget(db, [change.run_id for change, state, _ in accepted if state in ENDS])
    db.executemany(
        f"INSERT OR REPLACE INTO tokimori_attempts ({ATTEMPT}) VALUES ({marks(ATTEMPT)})",
        [rows.attempt_row(change.attempt) for change, _, _ in accepted if change.attempt is not None],
    )
    db.executemany(
        f"INSERT OR REPLACE INTO tokimori_outputs ({OUTPUT}, settled) VALUES ({marks(OUTPUT)}, 1)",
        [rows.output_row(change.output) for change, _, _ in accepted if change.output is not None],
    )


def _write_rows(
    db: sqlite3.Connection, settled: Sequence[Row], *, ends: bool, kept: frozenset[str] = frozenset()
) -> None:
    if settled:
        *columns, ids = zip(*settled, strict=True)
        named = {name: values for name, values in zip(_SETTLED, columns, strict=True) if name not in kept}
        differing = {name: values for name, values in named.items() if values.count(values[0]) < len(values)}
        shared = [values[0] for name, values in named.items() if name not in differing]
        changes = json_text(list(zip(*differing.values(), ids, strict=True)))
        db.execute(_writing(tuple(differing), kept, ends=ends), (*shared, changes))


def _settled_row(change: Change, state: RunState, error: str | None, by: NodeId) -> Row:
    if state is _SUCCEEDED:
        return state, error, change.ended, change.result, by, *_outcome_row(change)
    return state, error, change.ended if state in ENDS else None, None, by, *_outcome_row(change)


def save_outputs(db: sqlite3.Connection, outputs: Sequence[Output]) -> None:
    db.executemany(
        f"""
        INSERT INTO tokimori_outputs ({OUTPUT}, settled) VALUES ({marks(OUTPUT)}, 0)
        ON CONFLICT (run_id, attempt)
        DO UPDATE SET size = excluded.size, head = excluded.head, tail = excluded.tail, times = excluded.times
        WHERE NOT settled AND excluded.size >= size""",
        [rows.output_row(output) for output in outputs],
    )
