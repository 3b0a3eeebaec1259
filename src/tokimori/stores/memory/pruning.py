"""From old rows to counts, in memory."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import DailyCount, Expiry, day_of
from tokimori.model.run import Run, Skip
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeState
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.counts import daily_counts


def prune(tables: Tables, expiries: Sequence[Expiry], limit: int) -> int:
    left = limit
    for expiry in expiries:
        for run in list(islice(_old_runs(tables, expiry), left)):
            _drop_run(tables, run)
            left -= 1
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
    return limit - left


def _finished(tables: Tables, job_id: JobId) -> list[Run]:
    return sorted((row.run for row in tables.history.values() if row.run.job_id == job_id), key=lambda run: run.id)


def _old_runs(tables: Tables, expiry: Expiry) -> list[Run]:
    if expiry.deleted and expiry.job_id in tables.jobs:
        return []
    finished = _finished(tables, expiry.job_id)
    return [run for run in finished[: max(0, len(finished) - expiry.keep_runs)] if _may_go(run, expiry)]


def _may_go(run: Run, expiry: Expiry) -> bool:
    bound = expiry.before if run.origin.startswith("s:") else expiry.keyed_before
    return run.ended is not None and run.ended < bound


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
    owners = {row.run.node_id for row in tables.live.values() if row.run.state is RunState.RUNNING}
    gone = [
        node.id
        for node in tables.nodes.values()
        if node.state is not NodeState.ALIVE and node.id not in owners and (node.left or 0) < before
    ][:limit]
    for node_id in gone:
        del tables.nodes[node_id]
    return len(gone)


def counts(tables: Tables, job_id: JobId) -> list[DailyCount]:
    kept: Counter[tuple[Moment, str]] = Counter()
    for run in _finished(tables, job_id):
        kept[day_of(Moment(run.ended or 0)), run.state] += 1
    lives = [known for known, owner in (*tables.job_ids.items(), *tables.deleted.items()) if owner == job_id]
    for incarnation in lives:
        for skip in tables.skips.get(incarnation, {}).values():
            kept[day_of(skip.last), skip.reason] += skip.count
    pruned: Counter[tuple[Moment, str]] = Counter()
    for (owner, _, day, outcome), count in tables.pruned.items():
        if owner == job_id:
            pruned[day, outcome] += count
    return daily_counts(kept, pruned)
