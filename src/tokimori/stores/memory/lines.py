"""Lines for places and units, and rates of semaphores, in memory."""

from collections.abc import Container, Iterable, Iterator
from functools import partial
from itertools import groupby, islice

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.claim_rate import Taken, cut, last_in_the_way, opens_at, stored_rate, window_of
from tokimori.model.ids import Incarnation, Lane, NodeId, PermitId, RunId
from tokimori.model.job import Job, limit_of, units_here
from tokimori.model.lanes import Pause, open_lanes
from tokimori.model.semaphores import KEY_LINE, ledger_of, line_of, made_with
from tokimori.model.transitions import RunMove, RunState, move
from tokimori.ports.semaphores import Permit
from tokimori.stores.memory.family import add_children
from tokimori.stores.memory.tables import RunRow, SemaphoreRow, Tables, in_line
from tokimori.stores.rules.lines import (
    MOST_SERVED,
    MOST_SWEPT,
    Freed,
    LinePlace,
    programs_served,
    room,
    runs_woken,
    turn_of,
)
from tokimori.stores.rules.rates import Line, Rated, serve_in_turn


def add_pause(tables: Tables, pause: Pause) -> Pause:
    return tables.pauses.setdefault(pause.queue, pause)


def delete_pause(tables: Tables, queue: str) -> None:
    tables.pauses.pop(queue, None)


def list_pauses(tables: Tables) -> list[Pause]:
    return [tables.pauses[queue] for queue in sorted(tables.pauses)]


def cancel(
    tables: Tables,
    rows: Iterable[RunRow],
    reason: str,
    now: Moment,
    job: Job | None = None,
    *,
    event: RunMove = RunMove.CANCEL,
) -> None:
    """End runs that have not started, order the others to end. `job`: theirs, if it is deleted already."""
    freed, gone = Freed(), []
    for row in rows:
        run = row.run
        if run.state is RunState.RUNNING:
            tables.put(row, replace(run, cancel=run.cancel or reason))
            continue
        freed.leave(turn_of(run, names_of(job or tables.job_of(run.incarnation))))
        gone.append(replace(run, state=move(run.state, event), error=reason, ended=now, blocked_on=None))
        tables.put(row, gone[-1])
    add_children(tables, gone)
    serve(tables, freed)


def rejoin(tables: Tables, job: Job) -> None:
    """Make runs of a job in the lines of keys and semaphores ready again: their claim finds the new line."""
    for row in tables.runs_of(job.incarnation, RunState.BLOCKED):
        if row.run.blocked_on is not None:
            _wake(tables, row)


def names_of(job: Job | None) -> list[str]:
    """Return the semaphores in this store that runs of the job want."""
    return [] if job is None else [name for name, _ in units_here(job.definition, job.incarnation)]


def give_back(tables: Tables, run_id: RunId) -> set[str]:
    """Remove the permits of a run; return the semaphores with freed units."""
    held = [permit for permit in tables.permits.values() if permit.run_id == run_id]
    for permit in held:
        del tables.permits[permit.id]
    return {permit.semaphore for permit in held}


def serve(tables: Tables, freed: Freed) -> None:
    """Serve the lines of free places and units: wake runs, grant programs. Paused jobs' runs are claimed later."""
    for incarnation, places in freed.places.items():
        job = tables.job_of(incarnation)
        line = [row for row in tables.runs_of(incarnation, RunState.BLOCKED) if row.run.blocked_on is None]
        if job is not None and line:
            running = len(tables.runs_of(incarnation, RunState.RUNNING))
            _wake(tables, *line[: room(running, limit_of(job.definition), min(places, len(line)))])
    for incarnation, key in freed.keys:
        _serve_key(tables, incarnation, key)
    for name in freed.semaphores:
        serve_semaphore(tables, name)


def _serve_key(tables: Tables, incarnation: Incarnation, key: str) -> None:
    job = tables.job_of(incarnation)
    rows = [row for row in tables.runs_of(incarnation, RunState.BLOCKED) if row.run.concurrency_key == key]
    line = [row for row in rows if row.run.blocked_on == KEY_LINE]
    if job is not None:
        running = running_of_key(tables, incarnation, key)
        _wake(tables, *line[: room(running, job.definition.max_running_per_key, len(line))])


def running_of_key(tables: Tables, incarnation: Incarnation, key: str) -> int:
    """Return the number of running runs of the job and the key."""
    return sum(row.run.concurrency_key == key for row in tables.runs_of(incarnation, RunState.RUNNING))


def serve_semaphore(tables: Tables, name: str) -> None:
    """Grant the programs and wake the runs whose turn it is."""
    if name in tables.semaphores:
        grant_programs(tables, name)
        wake_runs(tables, name)


def grant_programs(tables: Tables, name: str) -> bool:
    """Grant units to the programs that are next; return if there are any. Runs of paused queues do not block them."""
    row, line = tables.semaphores[name], runs_in_line(tables, name)
    lanes = open_lanes({_lane(each) for each in line}, tables.pauses)
    first = next((place_of(tables, each, name) for each in line if _lane(each) in lanes), None)
    served = programs_served(open_units(tables, name), map(place_in_line, programs_in_line(tables, name)), first)
    if row.rate is not None and row.rate.smooth:
        served = served[:1]
    for program in served:
        row.granted = max(row.granted, tables.newest_token) + 1
        tables.permits[PermitId(program.id)] = replace(tables.permits[PermitId(program.id)], token=row.granted)
    if served:
        take(tables, name, sum(program.weight for program in served))
    return bool(served)


def wake_runs(tables: Tables, name: str, busy: Container[Lane] = ()) -> None:
    """Make the next runs ready, except those of busy lanes."""
    free, program = free_units(tables, name), next(map(place_in_line, programs_in_line(tables, name)), None)
    rated = rated_of(tables, name)
    if rated is not None:
        _wake_in_turn(tables, name, rated, free, program)
        return
    for lane, rows in _by_lane(runs_in_line(tables, name)):
        if lane not in busy:
            places = {place_of(tables, each, name): each for each in islice(rows, MOST_SERVED)}
            _wake(tables, *(places[place] for place in runs_woken(free, places, program)))


def _wake_in_turn(tables: Tables, name: str, rated: Rated, free: int, program: LinePlace | None) -> None:
    rows = {row.run.id: row for row in runs_in_line(tables, name) if row.run.lane is not None}
    lanes = {lane: [place_of(tables, row, name) for row in of_lane] for lane, of_lane in _by_lane(rows.values())}
    ready = {lane: tables.ready[lane][0][0] for lane in lanes if tables.ready.get(lane)}
    here = {lane: line for lane, line in lanes.items() if ready.get(lane, line[0].rank + 1) > line[0].rank}
    line = Line(free, here, program, passed=len(here) < len(lanes))
    woken, turns = serve_in_turn(line, rated, partial(opens, tables, name, rated))
    tables.semaphores[name].turns = turns
    _wake(tables, *(rows[RunId(run_id)] for run_id in woken))


def _by_lane(line: Iterable[RunRow]) -> Iterator[tuple[Lane, Iterator[RunRow]]]:
    return groupby(sorted(line, key=_lane), key=_lane)


def _lane(row: RunRow) -> Lane:
    return row.run.lane or Lane("")


def free_units(tables: Tables, name: str) -> int:
    """Return the free units of a semaphore; below zero if its limit was lowered below the held ones."""
    return tables.semaphores[name].limit - used_units(tables, name)


def open_units(tables: Tables, name: str) -> int:
    """Return the free units that the rate, if there is one, lets go."""
    rated, free = rated_of(tables, name), free_units(tables, name)
    return free if rated is None else min(free, rated.free)


def used_units(tables: Tables, name: str) -> int:
    """Return the held units of a semaphore."""
    return sum(each.weight for each in tables.permits.values() if each.semaphore == name and each.token is not None)


def runs_in_line(tables: Tables, name: str) -> list[RunRow]:
    """Return the runs that wait for a semaphore, in order."""
    return sorted((row for row in tables.live.values() if row.run.blocked_on == line_of(name)), key=in_line)


def programs_in_line(tables: Tables, name: str) -> list[Permit]:
    """Return the places of programs that wait for a semaphore, in order."""
    places = (each for each in tables.permits.values() if each.semaphore == name and each.token is None)
    return sorted(places, key=place_in_line)


def place_of(tables: Tables, row: RunRow, name: str) -> LinePlace:
    """Return a run's place, with the units that its job wants now."""
    job = tables.job_of(row.run.incarnation)
    names = {} if job is None else dict(units_here(job.definition, job.incarnation))
    return LinePlace(row.run.rank, row.run.id, names.get(name, 1))


def place_in_line(permit: Permit) -> LinePlace:
    """Return the place of a program that waits."""
    return LinePlace(permit.rank, permit.id, permit.weight)


def drop_programs(tables: Tables, node: NodeId) -> None:
    """Drop the permits and places in line of the programs of a dead node."""
    theirs = [permit for permit in tables.permits.values() if permit.node == node and permit.run_id is None]
    for permit in theirs:
        del tables.permits[permit.id]
    serve(tables, Freed(semaphores={permit.semaphore for permit in theirs}))


def sweep(tables: Tables) -> None:
    """Serve a few semaphores for which a run waits although its units are free, and no run of its lane is ready."""
    if not tables.semaphores:
        return
    ready = {_lane(row) for row in tables.live.values() if row.run.state is RunState.READY}
    stuck = []
    for name in sorted(tables.semaphores):
        free = open_units(tables, name)
        heads = [next(rows) for lane, rows in _by_lane(runs_in_line(tables, name)) if lane not in ready]
        program = next(map(place_in_line, programs_in_line(tables, name)), None)
        if any(runs_woken(free, [place_of(tables, head, name)], program) for head in heads):
            stuck.append(name)
    for name in stuck[:MOST_SWEPT]:
        wake_runs(tables, name, busy=ready)


def go_on(tables: Tables, now: Moment) -> int:
    """Serve the lines that go on by now because of a rate; return how many there are."""
    names = [name for name, row in tables.semaphores.items() if row.turns.wakes is not None and row.turns.wakes <= now]
    for name in names:
        serve_semaphore(tables, name)
    return len(names)


def _wake(tables: Tables, *rows: RunRow) -> None:
    for row in rows:
        tables.put(row, replace(row.run, state=move(row.run.state, RunMove.WAKE), blocked_on=None))


def made(tables: Tables, name: str, limit: int | None = None) -> SemaphoreRow:
    """Return the semaphore, which is made if it is missing."""
    units, rate = made_with(name) if limit is None else made_with(name, limit)
    return tables.semaphores.setdefault(name, SemaphoreRow(units, rate=stored_rate(rate)))


def rated_of(tables: Tables, name: str) -> Rated | None:
    """Return the rate of a semaphore, if it has one."""
    row, now = tables.semaphores[name], tables.now()
    if row.rate is None:
        return None
    taken = tables.taken[ledger_of(name)] = cut(tables.taken.get(ledger_of(name), ()), now)
    return Rated(row.rate, window_of(row.rate, taken, now), now, row.turns)


def take(tables: Tables, name: str, units: int) -> None:
    """Write that so many units were taken now, and forget what counts no more."""
    rated = rated_of(tables, name)
    if rated is not None:
        first = rated.now - rated.rate.period
        known = [each for each in tables.taken[ledger_of(name)] if each.moment > first]
        tables.taken[ledger_of(name)] = cut([*known, Taken(rated.now, units)], rated.now)


def opens(tables: Tables, name: str, rated: Rated, weight: int, before: int) -> Moment:
    """Return when so many units fit, behind so many that others are to take first."""
    in_the_way = last_in_the_way(rated.rate, tables.taken[ledger_of(name)], weight + before, rated.now)
    return opens_at(rated.rate, rated.window, in_the_way, rated.now, before)
