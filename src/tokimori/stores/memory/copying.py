"""Rows as they are, from one store to another: memory."""

from collections.abc import Iterator, Sequence
from itertools import islice

from tokimori.model.ids import JobId
from tokimori.model.run import Attempt, Output, Run
from tokimori.model.transitions import ENDS
from tokimori.ports.copying import Arrival, Copied, JobSkip, Key, Kind, key_of
from tokimori.stores.memory.tables import OutputRow, RunRow, Tables


def export_rows(tables: Tables, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    """See `Copying.export_rows`."""
    rows = sorted(_all(tables, kind), key=key_of)
    return list(islice((row for row in rows if after is None or key_of(row) > after), limit))


def _all(tables: Tables, kind: Kind) -> Iterator[Copied]:
    match kind:
        case Kind.SKIPS:
            for job in tables.jobs.values():
                for skip in tables.skips.get(job.incarnation, {}).values():
                    yield JobSkip(job_id=job.id, incarnation=job.incarnation, skip=skip)
        case Kind.HISTORY | Kind.RUNS:
            rows = tables.history if kind is Kind.HISTORY else tables.live
            yield from (row.run for row in rows.values())
        case Kind.ATTEMPTS:
            for attempts in tables.attempts.values():
                yield from attempts.values()
        case Kind.OUTPUTS:
            yield from (row.output for row in tables.outputs.values())
        case Kind.ARRIVALS:
            for (incarnation, root), parents in tables.arrived.items():
                yield Arrival(incarnation=incarnation, root=root, parents=tuple(sorted(parents)))
        case _:
            raise ValueError(kind)


def import_rows(tables: Tables, rows: Sequence[Copied]) -> None:
    """See `Copying.import_rows`."""
    for row in rows:
        match row:
            case JobSkip():
                tables.skips.setdefault(row.incarnation, {}).setdefault(row.skip.first, row.skip)
            case Run():
                _import_run(tables, row)
            case Attempt():
                tables.attempts.setdefault(row.run_id, {}).setdefault(row.number, row)
            case Output():
                tables.outputs.setdefault((row.run_id, row.attempt), OutputRow(row, settled=True))
            case Arrival():
                tables.arrived.setdefault((row.incarnation, row.root), set(map(JobId, row.parents)))


def _import_run(tables: Tables, run: Run) -> None:
    if run.state not in ENDS:
        tables.add(run)
    elif run.id not in tables.history:
        tables.history[run.id] = RunRow(run)
        tables.origins.setdefault((run.incarnation, run.origin), run.id)
