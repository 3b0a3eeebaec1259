"""Requests, lists, orders and pruning of runs, in memory."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import NotFound
from tokimori.model.ids import Incarnation, JobId, Lane, RunId
from tokimori.model.job import most_active
from tokimori.model.request import (
    PLAIN,
    REMEMBERED,
    Manner,
    answers,
    check_in_place_of,
    expiries_of,
    is_ahead,
    never_started,
    put_off,
    spans_of_key,
)
from tokimori.model.retention import FIRST_ID, MOST_COUNTED, PASSED, DailyCount, Expiry, daily_counts, day_of
from tokimori.model.run import Attempt, Details, Output, Run, Skip, brief, may_drop, may_hold, may_resume
from tokimori.model.transitions import ENDS, RunMove, RunState, move, sources
from tokimori.ports.ends import EndPlace, Ends
from tokimori.ports.nodes import NodeState
from tokimori.ports.store import MOST_TALLIED, Most, RunFilter, Tally
from tokimori.stores.memory.lines import cancel, names_of, serve
from tokimori.stores.memory.tables import RunRow, Tables
from tokimori.stores.rows import ENDED, ended_of, row_writer
from tokimori.stores.rules.errors import full, stopped
from tokimori.stores.rules.lines import Freed, lane_for, turn_of


def add_run(tables: Tables, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
    known = tables.origins.get((run.incarnation, run.origin)) or _taken_over_by(tables, run, manner, now)
    if known is not None:
        return tables.row(known).run
    job = tables.job(run.job_id)
    if job.incarnation != run.incarnation:
        raise NotFound(f"the job {run.job_id!r} was deleted meanwhile", field="id", value=run.job_id)
    lane = lane_for(job) or (run.lane if manner.forced else None)
    if lane is None:
        raise stopped(job.id, job.state)
    for span in spans_of_key(run) if manner.shares_key else ():
        newest = _newest(tables, run, span, manner)
        if newest is not None and answers(newest.run, run, manner):
            return newest.run
        if newest is not None and manner.replaces and never_started(newest.run):
            check_in_place_of(newest.run, manner)
            return _put_off(tables, newest, run, lane, now)
        if newest is None or not is_ahead(newest.run, run):
            break
    check_in_place_of(None, manner)
    if not tables.has_room(job, 1):
        raise full(job.id, most_active(job.definition))
    tables.add(replace(run, lane=lane))
    _note_expiry(tables, run)
    return tables.row(run.id).run


def add_runs(tables: Tables, runs: Sequence[Run], now: Moment) -> list[Run]:
    job, new = tables.job_of(runs[0].incarnation), [(run.incarnation, run.origin) not in tables.origins for run in runs]
    if job is not None and lane_for(job) is not None and not tables.has_room(job, sum(new)):
        raise full(job.id, most_active(job.definition))
    return [add_run(tables, run, now) for run in runs]


def _taken_over_by(tables: Tables, run: Run, manner: Manner, now: Moment) -> RunId | None:
    if not manner.replaces:
        return None
    for request_id, (_, asked) in list(tables.requests.items()):
        if asked < now - REMEMBERED:
            del tables.requests[request_id]
    return tables.requests[run.id][0] if run.id in tables.requests else None


def _newest(tables: Tables, run: Run, span: tuple[str, str], manner: Manner) -> RunRow | None:
    """Return the newest run of the same key: its origin is within this span."""
    origins = [
        origin
        for (life, origin), known in tables.origins.items()
        if life == run.incarnation and span[0] <= origin < span[1] and (known in tables.live or not manner.of_live)
    ]
    return tables.row(tables.origins[run.incarnation, max(origins)]) if origins else None


def _note_expiry(tables: Tables, run: Run) -> None:
    for each in expiries_of(run):
        tables.documents[each.kind, each.name] = each


def _put_off(tables: Tables, row: RunRow, asked: Run, lane: Lane, now: Moment) -> Run:
    _leave_line(tables, row, put_off(row.run, asked, lane))
    tables.requests[asked.id] = row.run.id, now
    _note_expiry(tables, row.run)
    return row.run


def runs_of(tables: Tables, incarnation: Incarnation, origins: Sequence[str], longest: Most = None) -> list[Run]:
    known = (tables.origins.get((incarnation, origin)) for origin in origins)
    return [brief(tables.row(run_id).run, longest) for run_id in known if run_id is not None]


def get_run(tables: Tables, run_id: RunId) -> Run:
    return tables.row(run_id).run


def list_runs(tables: Tables, wanted: RunFilter) -> list[Run]:
    runs = (run for run in tables.newest(wanted.before) if _is_wanted(run, wanted))
    return [brief(run, wanted.longest) for run in islice(runs, wanted.limit)]


def ended_among(tables: Tables, run_ids: Sequence[RunId]) -> list[RunId]:
    return [each for each in run_ids if each in tables.history]


def ended_since(tables: Tables, place: EndPlace, limit: int) -> Ends:
    """See `Endings.ended_since`. The history is in the order of ends, each with its own moment; 0 for copied ones."""
    first = place.written + bool(place.tie)
    newest = takewhile(lambda row: not 0 < row.written < first, reversed(tables.history.values()))
    rows = [row for row in newest if row.written][: -limit - 1 : -1]
    found = [ended_of((row.written, *_ended(row.run))) for row in rows]
    return Ends(found=found, rest=EndPlace(found[-1].written, found[-1].id) if len(found) == limit else None)


_ended = row_writer(Run, *ENDED.replace('"', "").split(", ")[1:])


def last_runs(tables: Tables, job_ids: Sequence[JobId], limit: int, longest: Most = None) -> list[Run]:
    wanted = RunFilter(limit=limit, longest=longest)
    runs = [run for job_id in job_ids for run in list_runs(tables, replace(wanted, job_id=job_id))]
    return sorted(runs, key=lambda run: run.id, reverse=True)


def _is_wanted(run: Run, wanted: RunFilter) -> bool:
    return (wanted.job_id is None or run.job_id == wanted.job_id) and (not wanted.states or run.state in wanted.states)


def attempts(tables: Tables, run_id: RunId) -> list[Attempt]:
    return [each for _, each in sorted(tables.attempts.get(run_id, {}).items())]


def outputs_with(tables: Tables, text: bytes, attempts: Mapping[RunId, int]) -> list[RunId]:
    kept = ((run_id, tables.outputs.get((run_id, attempt))) for run_id, attempt in attempts.items())
    return [run_id for run_id, row in kept if row and (text in row.output.head or text in row.output.tail)]


def output(tables: Tables, run_id: RunId, attempt: int) -> Output | None:
    row = tables.outputs.get((run_id, attempt))
    return None if row is None else row.output


def cancel_run(tables: Tables, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None) -> Run:
    row = tables.row(run_id)
    if row.run.state not in ENDS and unbegun is None:
        cancel(tables, [row], reason, now)
    elif unbegun is not None and may_drop(row.run, unbegun):
        cancel(tables, [row], reason, now, event=RunMove.DROP)
    return row.run


def hold_run(tables: Tables, run_id: RunId, reason: str) -> Run:
    row = tables.row(run_id)
    if may_hold(row.run):
        state = move(row.run.state, RunMove.HOLD)
        _leave_line(tables, row, replace(row.run, state=state, error=reason, blocked_on=None))
    return row.run


def hasten_run(tables: Tables, run: Run, due: Moment, nominal: Moment) -> None:
    row = tables.live.get(run.id)
    if row is not None and row.run.state in sources(RunMove.PUT_OFF) and row.run.due == run.due:
        state, rank = move(row.run.state, RunMove.PUT_OFF), row.run.rank + due - run.due
        _leave_line(tables, row, replace(row.run, state=state, rank=rank, due=due, nominal=nominal, blocked_on=None))


def _leave_line(tables: Tables, row: RunRow, after: Run) -> None:
    """Change a run that has not begun, and pass its turns on."""
    freed = Freed()
    freed.leave(turn_of(row.run, names_of(tables.job_of(row.run.incarnation))))
    tables.put(row, after)
    serve(tables, freed)


def resume_run(tables: Tables, run_id: RunId, details: tuple[Details, Details] | None = None) -> Run:
    row = tables.row(run_id)
    before, after = details or (row.run.details, row.run.details)
    if may_resume(row.run) and row.run.details == before:
        tables.put(row, replace(row.run, state=move(row.run.state, RunMove.RESUME), error=None, details=after))
    return row.run


def prune(tables: Tables, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
    rest = list(expiries)
    left = limit
    while rest and left:
        expiry, left = _prune_runs(tables, rest[0], left)
        rest[0] = expiry
        for skip in _old_skips(tables, expiry)[:left]:
            del tables.skips[expiry.incarnation][skip.first]
            tables.pruned[expiry.job_id, expiry.incarnation, day_of(skip.last), skip.reason] += skip.count
            left -= 1
        life, bound = expiry.incarnation, expiry.keyed_before
        for key in [key for key, each in tables.arrived.items() if key[0] == life and each.latest < bound][:left]:
            del tables.arrived[key]
            left -= 1
        if left and expiry.deleted and not _anything_left(tables, expiry):
            tables.deleted.pop(expiry.incarnation, None)
            tables.tombstones.pop(expiry.incarnation, None)
        del rest[: bool(left)]
    return rest


def _prune_runs(tables: Tables, expiry: Expiry, left: int) -> tuple[Expiry, int]:
    finished = _finished(tables, expiry.job_id)
    if expiry.deleted and expiry.job_id in tables.jobs:
        return expiry, left
    if expiry.keep_runs:
        wanted = min(expiry.keep_runs, PASSED * left)
        newest = [run.id for run in reversed(finished) if run.id < expiry.kept][:wanted]
        expiry, left = expiry.passed(wanted, len(newest), min(newest, default=None)), left - len(newest) // PASSED
    bound = FIRST_ID if expiry.keep_runs else min(expiry.kept, expiry.made_before)
    looked = [run for run in finished if expiry.after < run.id < bound][:left]
    for run in looked:
        if expiry.has_expired(run.origin, Moment(run.ended or 0)):
            _drop_run(tables, run)
    return replace(expiry, after=looked[-1].id if looked else expiry.after), left - len(looked)


def tallies(tables: Tables, job_ids: Sequence[JobId], since: RunId) -> list[Tally]:
    found: dict[JobId, list[RunState]] = {job_id: [] for job_id in job_ids}
    for run in takewhile(lambda run: run.id >= since, tables.newest(None)):
        states = found.get(run.job_id)
        if states is not None and run.state in ENDS and len(states) < MOST_TALLIED:
            states.append(run.state)
    good, bad = RunState.SUCCEEDED, RunState.FAILED
    return [Tally(job_id, ends.count(good), ends.count(bad)) for job_id, ends in found.items() if ends]


def _finished(tables: Tables, job_id: JobId) -> list[Run]:
    return sorted((row.run for row in tables.history.values() if row.run.job_id == job_id), key=lambda run: run.id)


def _drop_run(tables: Tables, run: Run) -> None:
    del tables.history[run.id]
    del tables.ids[bisect_left(tables.ids, run.id)]
    tables.origins.pop((run.incarnation, run.origin), None)
    for attempt in range(run.attempt + 1):
        tables.outputs.pop((run.id, attempt), None)
    tables.attempts.pop(run.id, None)
    tables.pruned[run.job_id, run.incarnation, day_of(Moment(run.ended or 0)), run.state] += 1


def _old_skips(tables: Tables, expiry: Expiry) -> list[Skip]:
    skips = sorted(tables.skips.get(expiry.incarnation, {}).values(), key=lambda skip: skip.first)
    return [skip for skip in skips[: None if expiry.deleted else -1] if skip.last < expiry.before]


def _anything_left(tables: Tables, expiry: Expiry) -> bool:
    history = expiry.job_id not in tables.jobs and bool(_finished(tables, expiry.job_id))
    arrived = any(incarnation == expiry.incarnation for incarnation, _ in tables.arrived)
    live = bool(tables.by_job.get(expiry.incarnation))
    return history or arrived or live or bool(tables.skips.get(expiry.incarnation))


def deleted_jobs(tables: Tables, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
    return sorted(pair for pair in tables.deleted.items() if after is None or pair[0] > after)[:limit]


def prune_nodes(tables: Tables, before: Moment, limit: int) -> int:
    owners = {row.run.node_id for row in tables.running.values()}
    gone = [
        node.id
        for node in tables.nodes.values()
        if node.state is not NodeState.ALIVE and node.id not in owners and (node.left or 0) < before
    ][:limit]
    for node_id in gone:
        del tables.nodes[node_id]
    return len(gone)


def counts(tables: Tables, job_id: JobId) -> list[DailyCount]:
    newest = _finished(tables, job_id)[-MOST_COUNTED - 1 :]
    rows = [(day_of(Moment(run.ended or 0)), str(run.state), 1, 0, 1) for run in newest]
    lives = [known for known, owner in (*tables.job_ids.items(), *tables.deleted.items()) if owner == job_id]
    for incarnation in lives:
        skips = sorted(tables.skips.get(incarnation, {}).values(), key=lambda skip: skip.first)[-MOST_COUNTED - 1 :]
        rows += ((day_of(skip.last), str(skip.reason), skip.count, 0, 1) for skip in skips)
    rows += ((day, outcome, 0, n, 0) for (owner, _, day, outcome), n in tables.pruned.items() if owner == job_id)
    return daily_counts(rows)
