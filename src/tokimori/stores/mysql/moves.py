"""Moves of runs after a change of their job, some in each transaction. A claim takes no run with an outdated lane."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.lanes import head_start
from tokimori.model.run import Run
from tokimori.model.transitions import RunMove, RunState, move
from tokimori.ports.working import LARGE
from tokimori.stores.mysql import lines, statements
from tokimori.stores.mysql.lines import locks, names_in
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, Places, count_places, delete, insert, places_of, sql
from tokimori.stores.rows import RUN, RUN_COLUMNS, SETTLED, Row, names_of, run_of, run_row
from tokimori.stores.rules.lines import MOST_MOVED, Freed, StillMoving, turn_of

_BEGIN = """
INSERT INTO tokimori_moves (incarnation, origin, woken, forced_lane, names, reason, since, priority_was)
SELECT incarnation, '', {}, %s, COALESCE(semaphores, '[]'), %s, %s, %s
FROM tokimori_jobs j WHERE incarnation = %s {}
ON DUPLICATE KEY UPDATE origin = '', woken = VALUES(woken), forced_lane = VALUES(forced_lane), reason = VALUES(reason),
    since = VALUES(since), priority_was = COALESCE(VALUES(priority_was), priority_was),
    names = JSON_MERGE_PRESERVE(tokimori_moves.names, VALUES(names))"""
_RUNNING = "(SELECT COUNT(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running')"
_GATE = f"SELECT lane, max_running, priority, semaphores FROM tokimori_jobs {BY_KEY} WHERE incarnation = %s FOR UPDATE"
_MOVE = """
SELECT origin, woken, forced_lane, names, reason, since, priority_was FROM tokimori_moves WHERE incarnation = %s
FOR UPDATE"""
_END = "DELETE FROM tokimori_moves WHERE incarnation = %s"
_SOME = """
SELECT id, origin FROM tokimori_runs FORCE INDEX (tokimori_runs_origin) WHERE incarnation = %s AND origin > %s
ORDER BY origin LIMIT %s"""
# Assignments see those before them.
_RELANE = f"""
UPDATE tokimori_runs {BY_KEY} SET lane = CASE WHEN lane IS NULL THEN %s ELSE %s END,
    state = CASE WHEN blocked_on IS NULL THEN state ELSE 'ready' END, blocked_on = NULL
WHERE id IN (%s)"""
_RERANK = f"""
UPDATE tokimori_runs {BY_KEY} SET "rank" = "rank" + %s, priority = %s
WHERE id IN (%s) AND state <> 'running' AND priority = %s"""
_PAYLOAD = names_of(RUN).index("payload")
NAMES = "SELECT names FROM tokimori_moves WHERE incarnation IN (%s)"
"""Further semaphores in whose lines runs of jobs may wait, from before a change."""


def begin(
    job: Incarnation, forced: Lane | None = None, reason: str | None = None, since: int = 0, was: int | None = None
) -> str:
    """Begin to move the runs of the job, before its change is written; an earlier move begins anew."""
    return sql(_BEGIN.format(_RUNNING, ""), forced, reason, since, was, job)


def begin_parking(job: Incarnation) -> str:
    """Begin a move for a job that a failure parks, unless it was stopped before. The settle wakes others."""
    return sql(_BEGIN.format("max_running", "AND state IN ('enabled', 'finished')"), None, None, 0, None, job)


def follow(strays: Mapping[RunId, Lane | None]) -> Iterator[str]:
    """Move ready runs that a claim has found in another lane than their job's."""
    for lane in set(strays.values()):
        runs = [run_id for run_id, other in strays.items() if other == lane]
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET lane = %s WHERE id IN (%s)", lane, runs)


async def check_moved(transaction: Transaction, job: Incarnation) -> None:
    """Raise `StillMoving`."""
    (move,) = await transaction.ask(sql(_MOVE, job))
    if move.rows:
        raise StillMoving(job)


async def move_runs(transaction: Transaction, job: Incarnation, how: str = "") -> bool:
    """Move more runs; return if all have moved. NOWAIT: refused while others hold the job or these runs."""
    freed = Freed()
    done = await step(transaction, job, freed, how)
    await transaction.commit(*await lines.serve(transaction, freed))
    return done


async def step(transaction: Transaction, job: Incarnation, freed: Freed, how: str = "") -> bool:
    """Move more runs, or end them if the job is deleted; return if all are done: then serve its lines."""
    gate, move = await transaction.ask(sql(f"{_GATE} {how}", job), sql(f"{_MOVE} {how}", job))
    if not move.rows:
        return True
    ((origin, woken, forced, names, reason, since, was),) = move.rows
    if not gate.rows and reason is None:
        await transaction.ask(sql(_END, job))
        return True
    lined = {*lines.names_in(names)}.union(*(lines.names_in(row[-1]) for row in gate.rows))
    *_, some = await transaction.ask(*lines.locks(Freed(semaphores=lined)), sql(_SOME, job, origin, MOST_MOVED))
    ids = [run_id for run_id, _ in some.rows]
    seen, waked = len(ids), 0
    if reason is not None:
        rows, seen = await _few(transaction, ids, how)
        left = Freed(semaphores=left_by(rows, {job: names}).semaphores)
        await transaction.ask(*await lines.serve(transaction, left, cancel(rows, reason, Moment(since))))
    else:
        ((lane, limit, priority, _),) = gate.rows
        taken = locked("id IN (%s)", sorted(ids), columns="id")
        moves = (f"{taken} {how}", sql(_RELANE, lane, forced or lane, ids), *_rerank(was, priority, ids))
        wakes = statements.wake(Counter({job: MOST_MOVED}), {job: statements.Places(limit, woken, has_line=True)})
        waked = sum(answer.changed for answer in (await transaction.ask(*moves, *wakes))[len(moves) :])
    if seen < len(ids) or MOST_MOVED in {seen, waked}:
        last = some.rows[seen - 1][1] if ids else origin
        moved = "UPDATE tokimori_moves SET origin = %s, woken = %s WHERE incarnation = %s"
        await transaction.ask(sql(moved, last, woken + waked, job))
        return False
    freed.semaphores.update(lines.names_in(names))
    await transaction.ask(sql(_END, job))
    return True


def _rerank(was: int | None, priority: int, ids: Sequence[RunId]) -> Iterator[str]:
    if was is not None:
        yield sql(_RERANK, head_start(was) - head_start(priority), priority, ids, was)


async def _few(transaction: Transaction, ids: Sequence[RunId], how: str) -> tuple[list[Row], int]:
    """Lock and read the first of these runs that do not run. Stop early if their payloads are large."""
    rows, seen, large = list[Row](), 0, 0
    while seen < len(ids) and large < LARGE:
        some = ids[seen : 2 * seen + 20]
        idle = locked("id IN (%s) AND state <> 'running'", sorted(some))
        (found,) = await transaction.ask(f"{idle} {how}")
        rows, seen = [*rows, *found.rows], seen + len(some)
        large += sum(len(row[_PAYLOAD] or "") for row in found.rows)
    return rows, seen


KEPT = f"{RUN}, {SETTLED}"
"""Columns of a run in the history."""
_LOCK_GATE_OF = f"""
SELECT chosen.incarnation, gate.semaphores, (SELECT names FROM tokimori_moves WHERE incarnation = chosen.incarnation)
FROM (SELECT incarnation FROM tokimori_runs {BY_KEY} WHERE id = %s LIMIT 1) chosen
LEFT JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation FOR UPDATE"""


def locked(which: str, *values: object, columns: str = KEPT) -> str:
    """Lock and read these live runs."""
    index = BY_KEY if which.startswith("id") else "FORCE INDEX (tokimori_runs_line)"
    return sql(f"SELECT {columns} FROM tokimori_runs {index} WHERE {which} ORDER BY id FOR UPDATE", *values)


def end(runs: Sequence[tuple[Run, Row]]) -> Iterator[str]:
    """Move ended runs, each with its columns `SETTLED`, to the history."""
    yield from insert("INSERT", "tokimori_history", KEPT, [(*run_row(run), *settled) for run, settled in runs])
    yield from delete("tokimori_runs", [run.id for run, _ in runs])


def cancel(rows: Sequence[Row], reason: str, now: Moment, event: RunMove = RunMove.CANCEL) -> Iterator[str]:
    """End the runs that have not started, order the others to end."""
    runs = [(run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS:]) for row in rows]
    running = [run.id for run, _ in runs if run.state is RunState.RUNNING and run.cancel is None]
    if running:
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET cancel = %s WHERE id IN (%s)", reason, running)
    settled = [columns for run, columns in runs if run.state is not RunState.RUNNING]
    yield from end(list(zip(cancelled(rows, reason, now, event), settled, strict=True)))


def cancelled(rows: Sequence[Row], reason: str, now: Moment, event: RunMove = RunMove.CANCEL) -> list[Run]:
    """Return the runs that end at once, as they have not started."""
    return [
        replace(run, state=move(run.state, event), error=reason, ended=now, blocked_on=None)
        for run in (run_of(row[:RUN_COLUMNS]) for row in rows)
        if run.state is not RunState.RUNNING
    ]


def left_by(rows: Sequence[Row], semaphores: Mapping[Incarnation, str | None]) -> Freed:
    """Return the lines in which these runs wait, or were woken: they are served when the runs leave."""
    freed = Freed()
    for row in rows:
        run = run_of(row[:RUN_COLUMNS])
        freed.leave(turn_of(run, names_in(semaphores.get(run.incarnation))))
    return freed


async def apart(transaction: Transaction, run_id: RunId) -> tuple[list[Row], Freed, dict[Incarnation, Places]]:
    """Lock a run behind its gate and its semaphores; return it, if it is live, the lines to serve, and the places."""
    (gate,) = await transaction.ask(sql(_LOCK_GATE_OF, run_id))
    semaphores = {incarnation: wanted for incarnation, wanted, _ in gate.rows}
    lined = {name for _, *named in gate.rows for each in named for name in names_in(each)}
    *_, runs, counted = await transaction.ask(
        *locks(Freed(semaphores=lined)), locked("id = %s", run_id), count_places(semaphores)
    )
    return runs.rows, left_by(runs.rows, semaphores), places_of(counted)
