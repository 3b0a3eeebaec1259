"""Exports and imports of rows for copies, in memory."""

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import islice

from tokimori.model.claim_rate import stored_rate
from tokimori.model.document import Document
from tokimori.model.run import Attempt, Output, Run
from tokimori.model.transitions import ENDS
from tokimori.ports import copying as port
from tokimori.ports.copying import Copied, Key, Kind, key_of
from tokimori.stores.memory.tables import OutputRow, RunRow, SemaphoreRow, Tables


def export_rows(tables: Tables, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    rows = sorted(_all(tables, kind), key=key_of)
    return list(islice((row for row in rows if after is None or key_of(row) > after), limit))


def _all(tables: Tables, kind: Kind) -> Iterator[Copied]:
    match kind:
        case Kind.DOCUMENTS:
            yield from tables.documents.values()
        case Kind.SEMAPHORES:
            for name, semaphore in tables.semaphores.items():
                rate = None if semaphore.rate is None else semaphore.rate.stored
                yield port.BareSemaphore(name=name, limit=semaphore.limit, granted=semaphore.granted, rate=rate)
        case Kind.SKIPS | Kind.DELETED_SKIPS | Kind.DELETED_JOBS:
            yield from _ledger(tables, kind)
        case Kind.HISTORY | Kind.RUNS:
            rows = tables.history if kind is Kind.HISTORY else tables.live
            yield from (row.run for row in rows.values())
        case Kind.ATTEMPTS:
            yield from (each for attempts in tables.attempts.values() for each in attempts.values())
        case Kind.OUTPUTS:
            yield from (row.output for row in tables.outputs.values())
        case Kind.ARRIVALS:
            yield from tables.arrived.values()
        case Kind.COUNTS:
            for (job_id, life, day, outcome), count in tables.pruned.items():
                yield port.PrunedCount(job_id=job_id, incarnation=life, day=day, outcome=str(outcome), count=count)
        case _:
            raise ValueError(kind)


def _ledger(tables: Tables, kind: Kind) -> Iterator[Copied]:
    match kind:
        case Kind.SKIPS:
            yield from (
                port.JobSkip(job_id=job.id, incarnation=job.incarnation, skip=skip)
                for job in tables.jobs.values()
                for skip in tables.skips.get(job.incarnation, {}).values()
            )
        case Kind.DELETED_JOBS:
            yield from (port.DeletedJob(incarnation=life, job_id=job_id) for life, job_id in tables.deleted.items())
        case _:
            yield from (
                port.DeletedSkip(incarnation=life, skip=skip)
                for life in tables.deleted
                for skip in tables.skips.get(life, {}).values()
            )


def import_rows(tables: Tables, kind: Kind, rows: Sequence[Copied]) -> None:
    for row in rows:
        match row:
            case Document():
                tables.documents.setdefault((row.kind, row.name), row)
            case port.BareSemaphore():
                tables.semaphores.setdefault(row.name, SemaphoreRow(row.limit, row.granted, stored_rate(row.rate)))
            case port.DeletedJob():
                tables.deleted.setdefault(row.incarnation, row.job_id)
            case port.JobSkip() | port.DeletedSkip():
                tables.skips.setdefault(row.incarnation, {}).setdefault(row.skip.first, row.skip)
            case Run():
                _import_run(tables, row)
            case Attempt():
                tables.attempts.setdefault(row.run_id, {}).setdefault(row.number, row)
            case Output():
                tables.outputs.setdefault((row.run_id, row.attempt), OutputRow(row, settled=row.attempt > 0))
            case port.Arrival():
                tables.arrived.setdefault((row.incarnation, row.root), row)
            case port.PrunedCount():
                tables.pruned.setdefault((row.job_id, row.incarnation, row.day, row.outcome), row.count)


def _import_run(tables: Tables, run: Run) -> None:
    if run.state not in ENDS:
        tables.add(run)
    elif run.id not in tables.history:
        tables.history[run.id] = RunRow(run)
        insort(tables.ids, run.id)
        tables.origins.setdefault((run.incarnation, run.origin), run.id)
