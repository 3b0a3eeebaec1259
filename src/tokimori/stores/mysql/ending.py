"""Ends of runs: moves from live runs to the history, and turns that they pass on."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, RunId
from tokimori.model.run import Run
from tokimori.model.transitions import RunMove, RunState, move
from tokimori.stores.mysql.limits import Places, count_places, places_of
from tokimori.stores.mysql.lines import locks, names_in
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, delete, insert, sql
from tokimori.stores.rows import RUN, RUN_COLUMNS, SETTLED, Row, run_of, run_row
from tokimori.stores.rules.lines import Freed, turn_of

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
