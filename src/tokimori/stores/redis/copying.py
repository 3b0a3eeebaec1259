"""Exports and imports of rows for copies: calls of scripts."""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from tokimori.clock import Moment
from tokimori.model.document import Document
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.run import Attempt, Output, Run
from tokimori.ports import copying as port
from tokimori.ports.copying import Copied, Key, Kind, key_of
from tokimori.stores.redis.connections import RedisConnections, document_key
from tokimori.stores.redis.documents import all_documents
from tokimori.stores.redis.hashes import output_map, run_of, skip_pairs, skips_of
from tokimori.stores.redis.runs import born_map, deleted_jobs, output

PAGE = 200
"""Members that one script looks at: other callers wait meanwhile."""


async def export_rows(db: RedisConnections, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    match kind:
        case Kind.DOCUMENTS:
            return [*await all_documents(db, None if after is None else (str(after[0]), str(after[1])), limit)]
        case Kind.DELETED_JOBS:
            found = await deleted_jobs(db, None if after is None else Incarnation(int(after[0])), limit)
            return [port.DeletedJob(incarnation=incarnation, job_id=job_id) for incarnation, job_id in found]
        case Kind.ARRIVALS:
            rows = [row for row in await _arrivals(db) if after is None or key_of(row) > after]
            return [*sorted(rows, key=key_of)[:limit]]
        case Kind.COUNTS:
            return [*await _counts(db, after, limit)]
        case _:
            return await _indexed(db, kind, after, limit)


async def _indexed(db: RedisConnections, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    """Return the next rows of an index. Ask until there are enough, as a member may have many rows or none."""
    rows: list[Copied] = []
    start, owner, first = "-", None, None
    if after is not None:
        owner, first = str(after[0]), after[-1]
        start = f"[{owner:0>19}" if kind is Kind.DELETED_SKIPS else f"[{owner}"
    while len(rows) < limit:
        asked = {"limit": limit - len(rows), "most": PAGE}
        seen, answer = await db.run("export_rows", kind=kind, after=owner, first=first, **{"from": start}, **asked)
        if seen is None:
            break
        start = f"({seen}"
        page = await asyncio.gather(*(_value_of(db, kind, words) for words in answer))
        rows += [row for row in page if after is None or key_of(row) > after]
    return sorted(rows, key=key_of)[:limit]


async def _value_of(db: RedisConnections, kind: Kind, words: Any) -> Copied:
    match kind:
        case Kind.SEMAPHORES:
            name, limit, granted, rate = words
            return port.BareSemaphore(name=name, limit=int(limit), granted=int(granted), rate=rate)
        case Kind.SKIPS:
            job_id, incarnation, text = words
            return port.JobSkip(job_id=job_id, incarnation=Incarnation(int(incarnation)), skip=skips_of([text])[0])
        case Kind.DELETED_SKIPS:
            incarnation, _, text = words
            return port.DeletedSkip(incarnation=Incarnation(int(incarnation)), skip=skips_of([text])[0])
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


async def _names(db: RedisConnections, begin: str) -> list[str]:
    """Return the rests of the names of all keys that begin so. They are scanned for, as no index lists them."""
    prefix = f"{db.address.prefix}{begin}"
    names: set[str] = set()
    cursor = ""
    while cursor != "0":
        cursor, some = await db.do("SCAN", cursor or "0", "MATCH", f"{prefix}*", "COUNT", "1000")
        names.update(name.removeprefix(prefix) for name in some)
    return sorted(names)


async def _arrivals(db: RedisConnections) -> list[port.Arrival]:
    """Return all arrivals: one for each root of a child that waits for all of its parents."""
    found = []
    for name in await _names(db, "arrivals:"):
        flat = await db.do("ZRANGE", f"{db.address.prefix}arrivals:{name}", "0", "-1", "WITHSCORES")
        for root, latest in zip(flat[::2], flat[1::2], strict=True):
            parents = tuple(sorted(await db.do("SMEMBERS", f"{db.address.prefix}arrived:{name}:{root}")))
            life, moment = Incarnation(int(name)), Moment(int(latest))
            found.append(port.Arrival(incarnation=life, root=root, parents=parents, latest=moment))
    return found


async def _counts(db: RedisConnections, after: Key | None, limit: int) -> list[port.PrunedCount]:
    """Return the next counts, job by job, of jobs that no longer exist, too."""
    rows: list[port.PrunedCount] = []
    for name in await _names(db, "counts:"):
        if len(rows) >= limit:
            break
        if after is None or name >= str(after[0]):
            rows += [row for row in await _counts_of(db, JobId(name)) if after is None or key_of(row) > after]
    return rows[:limit]


async def _counts_of(db: RedisConnections, job_id: JobId) -> list[port.PrunedCount]:
    flat = await db.do("HGETALL", f"{db.address.prefix}counts:{job_id}")
    found = []
    for key, number in zip(flat[::2], flat[1::2], strict=True):
        incarnation, day, outcome = key.split(" ")
        life, at = Incarnation(int(incarnation)), Moment(int(day))
        found.append(port.PrunedCount(job_id=job_id, incarnation=life, day=at, outcome=outcome, count=int(number)))
    return sorted(found, key=key_of)


async def import_rows(db: RedisConnections, kind: Kind, rows: Sequence[Copied]) -> None:
    await db.run("import_rows", kind=kind, rows=[_words(row) for row in rows])


def _words(row: Copied) -> tuple[object, ...]:
    match row:
        case Document():
            return document_key(row.kind, row.name), row.text, str(row.version)
        case port.BareSemaphore():
            return row.name, row.limit, row.granted, row.rate
        case port.JobSkip() | port.DeletedSkip():
            return (str(row.incarnation), *skip_pairs([row.skip])[0])
        case port.DeletedJob():
            return str(row.incarnation), row.job_id
        case Run():
            return born_map(row), row.node_id
        case Attempt():
            return row.run_id, row.number, msgspec.json.encode(row).decode()
        case Output():
            return (output_map(row),)
        case port.Arrival():
            return str(row.incarnation), row.root, row.parents, row.latest
        case port.PrunedCount():
            return row.job_id, f"{row.incarnation} {row.day} {row.outcome}", row.count
        case _:
            assert_never(row)
