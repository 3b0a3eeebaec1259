"""Pruning of old rows into counts, in memory."""

from collections.abc import Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import FIRST_ID, MOST_COUNTED, PASSED, DailyCount, Expiry, daily_counts, day_of
from tokimori.model.run import Run, Skip
from tokimori.ports.nodes import NodeState
from tokimori.stores.memory.tables import Tables


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


def _finished(tables: Tables, job_id: JobId) -> list[Run]:
    return sorted((row.run for row in tables.history.values() if row.run.job_id == job_id), key=lambda run: run.id)


def _drop_run(tables: Tables, run: Run) -> None:
    del tables.history[run.id]
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
