"""Edges between jobs, and runs of children after their parents: statements."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.run import NEVER, Run, SkipReason, Step
from tokimori.model.transitions import ACTIVE, ENDS
from tokimori.ports.copying import Arrival
from tokimori.ports.store import Family
from tokimori.stores.mysql import statements
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, Answer, insert, sql
from tokimori.stores.rows import (
    ARRIVAL,
    EDGE,
    FOLLOWER,
    RUN,
    SKIP,
    STEP_FOLLOWER,
    arrival_of,
    arrival_row,
    edge_of,
    follower_of,
    run_row,
    skip_row,
)
from tokimori.stores.rules.edits import Edges
from tokimori.stores.rules.errors import check_family
from tokimori.stores.rules.new_runs import (
    NO_STEPS,
    Child,
    Follower,
    arrive,
    child_skip,
    children_of,
    in_order,
    steps_after,
)

_VERSION = "SELECT COALESCE(MAX(version), 0) FROM tokimori_family"
_LOCK = "INSERT INTO tokimori_family VALUES (true, 0) ON DUPLICATE KEY UPDATE version = version"
# Chosen without a lock, then locked: the gates of the others are shared.
_LOCK_BOUNDED = f"""
SELECT gate.incarnation FROM (
    SELECT j.incarnation FROM tokimori_edges e JOIN tokimori_jobs j ON j.id = e.child
    WHERE e.parent IN (%s) AND j.most_active IS NOT NULL ORDER BY j.incarnation LIMIT 1000000
) chosen STRAIGHT_JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation
ORDER BY gate.incarnation FOR UPDATE"""


async def change_edges(transaction: Transaction, before: Edges, after: Edges, family: int | None = None) -> None:
    """Replace the edges that jobs declared before. Raises `FamilyChanged`."""
    if before == after:
        return
    _, version = await transaction.ask(_LOCK, _VERSION)
    if after:
        check_family(version.rows[0][0], family)
    declared = sorted({*before, *after})
    await transaction.ask(
        sql("DELETE FROM tokimori_edges WHERE declared_by IN (%s)", declared),
        *insert("INSERT", "tokimori_edges", EDGE, list(chain(*after.values()))),
        "UPDATE tokimori_family SET version = version + 1",
    )


async def has_children(transaction: Transaction, job_id: JobId) -> bool:
    """Return if other jobs have declared that they run after it.

    The family is locked first, so that no edge is added meanwhile.
    """
    children = "SELECT 1 FROM tokimori_edges WHERE parent = %s AND declared_by = child LIMIT 1"
    _, found = await transaction.ask(_LOCK, sql(children, job_id))
    return bool(found.rows)


READ_FAMILY = (_VERSION, f'SELECT {EDGE} FROM tokimori_edges ORDER BY parent, child, "on", joins, declared_by')


def family_of(version: Answer, edges: Answer) -> Family:
    """Return the family from the answers to `READ_FAMILY`."""
    return Family(version=version.rows[0][0], edges=tuple(map(edge_of, edges.rows)))


def lock_children(parents: Iterable[JobId]) -> str:
    """Read the children of these jobs, and share their gates: `born_after` the answer."""
    return sql(
        f"""SELECT {FOLLOWER} FROM tokimori_edges e
        JOIN tokimori_jobs j ON j.id = e.child WHERE e.parent IN (%s) ORDER BY j.incarnation {SHARED}""",
        sorted(set(parents)),
    )


def lock_bounded_children(parents: Iterable[JobId]) -> str:
    """Lock exclusively the gates of children with a bound on active runs: two transactions that share a gate, and then
    both want it exclusively, would deadlock.
    """
    return sql(_LOCK_BOUNDED, sorted(set(parents)))


async def lock_children_of(transaction: Transaction, which: str, *values: object) -> Answer:
    """Lock the children of live runs that are about to be cancelled, both ways."""
    (found,) = await transaction.ask(sql(f"SELECT DISTINCT job_id FROM tokimori_runs WHERE {which}", *values))
    parents = [job_id for (job_id,) in found.rows]
    return (await transaction.ask(lock_bounded_children(parents), lock_children(parents)))[1]


async def lock_named(transaction: Transaction, steps: Mapping[RunId, Sequence[Step]]) -> dict[JobId, Follower]:
    """Share the gates of jobs that runs name as their steps, before all other locks."""
    named = sorted({step.job for each in steps.values() for step in each})
    if not named:
        return {}
    look = f"SELECT {STEP_FOLLOWER} FROM tokimori_jobs j WHERE j.id IN (%s) ORDER BY j.incarnation {SHARED}"
    (found,) = await transaction.ask(sql(look, named))
    return {each.job.id: each for each in map(follower_of, found.rows)}


def born_after(
    answer: Answer,
    runs: Iterable[Run],
    settled: Iterable[Run] = (),
    steps: Mapping[RunId, Sequence[Step]] = NO_STEPS,
    named: Mapping[JobId, Follower] = NO_STEPS,
) -> list[Child]:
    """Return the children of these runs, and the steps of the `settled` ones, whose jobs may be deleted, in one order.

    Runs that have not ended have no children but those that they spawn.
    """
    found: dict[JobId, list[Follower]] = {}
    for each in map(follower_of, answer.rows):
        found.setdefault(each.edge.parent, []).append(each)
    new_runs = [child for run in runs if run.state in ENDS for child in children_of(run, found.get(run.job_id, ()))]
    found_steps = (steps_after(run, steps.get(run.id, ()), named) for run in settled)
    return in_order([*new_runs, *chain(*found_steps)])


async def add_children(transaction: Transaction, children: Sequence[Child], settled: Iterable[Run]) -> list[str]:
    """Return the writes that give each child its run, or its skip. `settled` is still unwritten."""
    joining = [child for child in children if child.joins]
    arrivals, complete = await _arrive(transaction, joining) if joining else ([], [])
    born = [child for child in children if not child.joins] + complete
    reasons = await _reasons(
        transaction, born, Counter(run.incarnation for run in settled if run.state not in ACTIVE or run.due == NEVER)
    )
    taken = await _ids_in_history(transaction, [child.step.id for child in born if child.step is not None])
    made = [child.run() for child, reason in zip(born, reasons, strict=True) if reason is None]
    runs = [run_row(run) for run in made if run.id not in taken]
    same = "ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"
    kept = insert("REPLACE", "tokimori_arrivals", ARRIVAL, [arrival_row(each) for each in arrivals])
    return [*insert("INSERT", "tokimori_runs", RUN, runs, same), *_skips(zip(born, reasons, strict=True)), *kept]


async def _ids_in_history(transaction: Transaction, steps: Sequence[RunId]) -> set[RunId]:
    """Return the ids among these that runs in the history have already."""
    if not steps:
        return set()
    (found,) = await transaction.ask(sql("SELECT id FROM tokimori_history WHERE id IN (%s)", sorted(steps)))
    return {run_id for (run_id,) in found.rows}


async def _arrive(transaction: Transaction, joining: Sequence[Child]) -> tuple[list[Arrival], list[Child]]:
    """Store that these parents have ended. Return all arrivals, and the children that can have their run now.

    The rows are written before they are read. So of two parents that end at the same time the later one sees both.
    """
    keys = sorted({key for child in joining for key in child.keys})
    look = "SELECT parents, latest FROM tokimori_arrivals WHERE incarnation = %s AND root = %s"
    same = "ON DUPLICATE KEY UPDATE parents = tokimori_arrivals.parents"
    written = list(insert("INSERT", "tokimori_arrivals", ARRIVAL, [(*key, "", 0) for key in keys], same))
    run = "SELECT 1 FROM tokimori_history WHERE incarnation = %s AND request = CONCAT('c:', %s)"
    answers = await transaction.ask(*written, *(sql(each, *key) for each in (look, run) for key in keys))
    found, finished = answers[len(written) : -len(keys)], dict(zip(keys, answers[-len(keys) :], strict=True))
    rows = {key: answer.rows[0] for key, answer in zip(keys, found, strict=True)}
    known = {key: arrival_of((*key, *row)) for key, row in rows.items() if row[0]}
    complete = []
    for child in joining:
        arrived, ready = arrive(child, known)
        known |= {(each.incarnation, each.root): each for each in arrived}
        if ready is not None and not finished[child.key].rows:
            complete.append(ready)
    return list(known.values()), complete


async def _reasons(
    transaction: Transaction, children: Sequence[Child], leaving: Counter[Incarnation]
) -> list[SkipReason | None]:
    """Return for each child why it gets no run, or None if it gets one. Lock the jobs whose active runs are counted."""
    bounded = sorted({child.key[0] for child in children if child.follower.most_active is not None})
    rooms: dict[Incarnation, int] = {}
    if bounded:
        gates = f"SELECT 1 FROM tokimori_jobs {BY_KEY} WHERE incarnation IN (%s) ORDER BY incarnation FOR UPDATE"
        _, counted = await transaction.ask(sql(gates, bounded), statements.count_active(bounded))
        rooms = {job: left + leaving[job] for job, left in statements.rooms_of(counted).items()}
    reasons = []
    for child in children:
        incarnation, _ = child.key
        reason = child.reason(has_room=rooms.get(incarnation, 1) > 0)
        if reason is None and incarnation in rooms:
            rooms[incarnation] -= 1
        reasons.append(reason)
    return reasons


def _skips(children: Iterable[tuple[Child, SkipReason | None]]) -> Iterator[str]:
    for child, reason in children:
        if reason is not None:
            more = 'ON DUPLICATE KEY UPDATE last = VALUES(last), "count" = "count" + 1, reason = VALUES(reason)'
            row = (child.key[0], *skip_row(child_skip(child.parent, reason)))
            yield from insert("INSERT", "tokimori_skips", f"incarnation, {SKIP}", [row], more)
