"""Rows as they are, from one store to another: what is asked of the scripts on rows of every kind."""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.run import Attempt, Output, Run
from tokimori.ports.copying import Arrival, Copied, JobSkip, Key, Kind, key_of
from tokimori.stores.redis.connections import Connections
from tokimori.stores.redis.hashes import output_map, run_of, skip_pairs, skips_of
from tokimori.stores.redis.runs import born_map, output

PAGE = 200
"""How many members one script looks at: others wait meanwhile."""


async def export_rows(db: Connections, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    """See `Copying.export_rows`. Read in pages, as few members may have many rows, and many none."""
    if kind is Kind.ARRIVALS:
        found = [row for row in await _arrivals(db) if after is None or key_of(row) > after]
        return [*sorted(found, key=key_of)[:limit]]
    rows: list[Copied] = []
    start = "-" if after is None else f"[{after[0]}"
    job, first = (None, None) if after is None else (after[0], after[-1])
    while len(rows) < limit:
        asked = {"limit": limit - len(rows), "most": PAGE}
        seen, answer = await db.run("export_rows", kind=kind, job=job, first=first, **{"from": start}, **asked)
        if seen is None:
            break
        start = f"({seen}"
        page = await asyncio.gather(*(_value_of(db, kind, words) for words in answer))
        rows += [row for row in page if after is None or key_of(row) > after]
    return sorted(rows, key=key_of)[:limit]


async def _value_of(db: Connections, kind: Kind, words: Any) -> Copied:
    match kind:
        case Kind.SKIPS:
            job_id, incarnation, text = words
            return JobSkip(job_id=job_id, incarnation=Incarnation(int(incarnation)), skip=skips_of([text])[0])
        case Kind.HISTORY | Kind.RUNS:
            return run_of(words)
        case Kind.ATTEMPTS:
            return msgspec.json.decode(words[0], type=Attempt)
        case Kind.OUTPUTS:
            run_id, attempt = words
            found = await output(db, RunId(run_id), attempt)
            return Output(run_id=run_id, attempt=attempt, size=0) if found is None else found
        case _:
            raise ValueError(kind)


async def _arrivals(db: Connections) -> list[Arrival]:
    """All of them: no index knows their names. Only children that wait for the rest of their parents have one."""
    prefix = f"{db.address.prefix}arrived:"
    names: set[str] = set()
    cursor = ""
    while cursor != "0":
        cursor, some = await db.do("SCAN", cursor or "0", "MATCH", f"{prefix}*", "COUNT", "1000")
        names.update(some)
    found = []
    for name in names:
        incarnation, _, root = name.removeprefix(prefix).partition(":")
        parents = await db.do("SMEMBERS", name)
        found.append(Arrival(incarnation=Incarnation(int(incarnation)), root=root, parents=tuple(sorted(parents))))
    return found


async def import_rows(db: Connections, kind: Kind, rows: Sequence[Copied]) -> None:
    """See `Copying.import_rows`."""
    await db.run("import_rows", kind=kind, rows=[_words(row) for row in rows])


def _words(row: Copied) -> tuple[object, ...]:
    match row:
        case JobSkip():
            return (str(row.incarnation), *skip_pairs([row.skip])[0])
        case Run():
            return (born_map(row),)
        case Attempt():
            return row.run_id, row.number, msgspec.json.encode(row).decode()
        case Output():
            return (output_map(row),)
        case Arrival():
            return str(row.incarnation), row.root, [JobId(parent) for parent in row.parents]
        case _:
            assert_never(row)
