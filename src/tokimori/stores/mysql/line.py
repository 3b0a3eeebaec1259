"""Moves that several methods share: ending runs, cancelling them, and waking the next in line."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, RunId
from tokimori.model.run import Run
from tokimori.model.transitions import Event, RunState, move
from tokimori.stores.mysql.permits import Freed, locks, names_in
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, Answer, delete, insert, sql
from tokimori.stores.rows import RUN, RUN_COLUMNS, SETTLED, Row, run_of, run_row
from tokimori.stores.rules.lines import room

KEPT = f"{RUN}, {SETTLED}"
"""What the history knows of a run."""
# Chosen without a lock, then locked: no other gate is waited for. The limit keeps the inner query from being merged.
_LOCK_GATES = f"""
SELECT gate.incarnation
FROM (
    SELECT incarnation FROM tokimori_jobs {BY_KEY}
    WHERE incarnation IN (%s) AND (max_running > 0 OR incarnation IN (%s))
    ORDER BY incarnation LIMIT 1000000
) chosen STRAIGHT_JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation
ORDER BY gate.incarnation FOR UPDATE
"""
_LOCK_GATE_OF = f"""
SELECT gate.incarnation, gate.semaphores
FROM (SELECT incarnation FROM tokimori_runs {BY_KEY} WHERE id = %s LIMIT 1) chosen
STRAIGHT_JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation FOR UPDATE
"""
# A statement of its own, after the locks: within one it would count what was there before it waited for them.
_PLACES = f"""
SELECT incarnation, max_running,
    (SELECT COUNT(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running'),
    EXISTS (SELECT 1 FROM tokimori_runs
        WHERE incarnation = j.incarnation AND state = 'blocked' AND blocked_on IS NULL)
FROM tokimori_jobs j {BY_KEY} WHERE incarnation IN (%s) AND max_running > 0
"""


# The gates are locked by then: nobody else adds a run of theirs.
_ACTIVE = f"""
SELECT incarnation, most_active, (SELECT COUNT(*) FROM tokimori_runs
    WHERE incarnation = j.incarnation AND state IN ('waiting', 'ready', 'blocked', 'running'))
FROM tokimori_jobs j {BY_KEY} WHERE incarnation IN (%s) AND most_active IS NOT NULL
"""


class Place(NamedTuple):
    """How many runs of a job may run (0: any number), how many do, and whether others stand in line.

    Only a claim that holds the gate sends a run to the line: who holds the gate knows that nobody joins.
    """

    limit: int
    running: int
    has_line: bool


def lock_gates(limited: Iterable[Incarnation], all_of: Iterable[Incarnation] = ()) -> str:
    """Lock those jobs that have a limit, and `all_of`, which have none perhaps."""
    others = sorted(set(all_of))
    return sql(_LOCK_GATES, sorted({*limited, *others}), others)


def lock_gate_of(run_id: RunId) -> str:
    """Lock the job of a run, and read which semaphores it wants."""
    return sql(_LOCK_GATE_OF, run_id)


def count_places(jobs: Iterable[Incarnation]) -> str:
    """Read limits, and count what runs, of those jobs that have a limit: `places_of` the answer."""
    return sql(_PLACES, sorted(set(jobs)))


def places_of(answer: Answer) -> dict[Incarnation, Place]:
    """What `count_places` found."""
    return {incarnation: Place(limit, running, bool(line)) for incarnation, limit, running, line in answer.rows}


def count_active(jobs: Iterable[Incarnation]) -> str:
    """Count the active runs of those jobs that may have only so many: `rooms_of` the answer."""
    return sql(_ACTIVE, sorted(set(jobs)))


def rooms_of(answer: Answer) -> dict[Incarnation, int]:
    """How many more active runs these jobs may have; the others may have any number."""
    return {incarnation: most - active for incarnation, most, active in answer.rows}


def locked(which: str, *values: object) -> str:
    """Lock these live runs, and read all that is known of them."""
    return sql(f"SELECT {KEPT} FROM tokimori_runs WHERE {which} ORDER BY id FOR UPDATE", *values)


def end(runs: Sequence[tuple[Run, Row]]) -> Iterator[str]:
    """Move ended runs, each with its columns `SETTLED`, to the history."""
    yield from insert("INSERT", "tokimori_history", KEPT, [(*run_row(run), *settled) for run, settled in runs])
    yield from delete("tokimori_runs", [run.id for run, _ in runs])


def cancel(rows: Sequence[Row], reason: str, now: Moment) -> Iterator[str]:
    """End the runs that have not started, order the others to end."""
    runs = [(run_of(row[:RUN_COLUMNS]), row[RUN_COLUMNS:]) for row in rows]
    running = [run.id for run, _ in runs if run.state is RunState.RUNNING and run.cancel is None]
    if running:
        yield sql(f"UPDATE tokimori_runs {BY_KEY} SET cancel = %s WHERE id IN (%s)", reason, running)
    yield from end(
        [
            (replace(run, state=move(run.state, Event.CANCEL), error=reason, ended=now, blocked_on=None), settled)
            for run, settled in runs
            if run.state is not RunState.RUNNING
        ]
    )


def turns(rows: Sequence[Row]) -> Counter[Incarnation]:
    """The turns that runs pass on when they are cancelled: those of the ready ones."""
    runs = [run_of(row[:RUN_COLUMNS]) for row in rows]
    return Counter(run.incarnation for run in runs if run.state is RunState.READY)


def left_by(rows: Sequence[Row], semaphores: Mapping[Incarnation, str | None]) -> Freed:
    """The lines in which these runs stand, or may have been woken, by what their jobs want: served when they go."""
    freed = Freed()
    for row in rows:
        run = run_of(row[:RUN_COLUMNS])
        freed.leave(run, names_in(semaphores.get(run.incarnation)))
    return freed


def wake(freed: Counter[Incarnation], places: Mapping[Incarnation, Place]) -> Iterator[str]:
    """Make the next in line ready, for as many places as were freed. A paused job's are claimed after its resume.

    Only jobs whose gates are locked have a line that moves; the others have no limit.
    """
    for incarnation in sorted(freed):
        place = places.get(incarnation)
        woken = 0 if place is None or not place.has_line else room(place.running, place.limit, freed[incarnation])
        if woken:
            yield sql(
                """UPDATE tokimori_runs FORCE INDEX (tokimori_runs_line) SET state = 'ready'
                WHERE incarnation = %s AND state = 'blocked' AND blocked_on IS NULL ORDER BY "rank", id LIMIT %s""",
                incarnation,
                woken,
            )


async def apart(transaction: Transaction, run_id: RunId) -> tuple[list[Row], Freed, list[str]]:
    """Lock a run behind its gate and its semaphores: the run, if it is live, and who is served when it goes."""
    (gate,) = await transaction.ask(lock_gate_of(run_id))
    semaphores = dict(gate.rows)
    *_, runs, counted = await transaction.ask(
        *locks(Freed(semaphores={name for each in semaphores.values() for name in names_in(each)})),
        locked("id = %s", run_id),
        count_places(semaphores),
    )
    woken = list(wake(turns(runs.rows), places_of(counted)))
    return runs.rows, left_by(runs.rows, semaphores), woken
