"""Copying everything from one store to another: page by page in the order of keys, then compared on both sides.

Whatever the other store holds must be the first part of the same copy. So a copy that was interrupted can be asked for
again and goes on; no row is copied twice, and rows of other origin are never mixed with it. Until it is whole no node
works on it: a document says so from before its first row.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from secrets import token_bytes, token_hex

import msgspec
from msgspec.structs import replace

from tokimori.engine.unfinished import UNFINISHED, refuse_unfinished
from tokimori.errors import Conflict, FamilyChanged, NotFound, Refused, StoreUnavailable
from tokimori.model.document import Document
from tokimori.model.ids import JobId, NodeId, uuid7
from tokimori.model.job import Job
from tokimori.model.lanes import Pause
from tokimori.model.target import Unreadable
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Copied, Key, Kind, key_of
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.schema import prepare_schema
from tokimori.service.store_calls import retried

ROWS, DOCUMENTS, OUTPUTS, COUNTS = 200, 8, 8, 5000
"""How many rows are in memory at a time; of documents, each up to 256 KiB, and of outputs, up to 128 KiB, fewer; of
counts, each a line, more."""

LOOKS, BETWEEN = 10, 0.25
"""How often, and after how many seconds, it is looked whether a node beats: longer than a beat lasts."""
Row = Job | Pause | Copied
_encode = msgspec.json.Encoder(order="deterministic").encode


class KindCopied(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one kind of rows: how many both stores hold, how many this copy wrote, and the SHA-256 of all."""

    kind: Kind
    rows: int
    written: int
    digest: str


class CopyStep(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a copy: rows of this kind copied so far, or (`verifying`) read again, on both sides together."""

    kind: Kind
    verifying: bool
    rows: int
    total: int | None = None


ReportStep = Callable[[CopyStep], None]
Idle = Callable[[], Awaitable[None]]


class CopyTally:
    """Counts rows and makes one digest of them in their order; pages of any size give the same digest."""

    def __init__(self) -> None:
        self.rows = 0
        self._hash = sha256()

    def add(self, rows: Iterable[Row]) -> None:
        """Add the rows that come next."""
        for row in rows:
            self.rows += 1
            self._hash.update(_encode(row) + b"\n")

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all rows so far, in hex."""
        return self._hash.hexdigest()


async def copy_store(source: Store, target: Store, report: ReportStep, *, still: bool = False) -> Sequence[KindCopied]:
    """Copy all of one open store to another one that is empty, or holds an earlier part of the same copy.

    Raises `Refused` while nodes work on either store, if a run was left running, or if both are the same store;
    `Conflict` if the target holds anything else, or the source changed meanwhile; and `SchemaMismatch`. `still`: the
    source is what a store was at one moment. Its nodes do not work on the target, so they are dead there.
    """
    await prepare_source(source)
    await prepare_schema(target)
    idle = partial(_check_idle, *([] if still else [("FROM", source)]), ("TO", target))
    await idle()
    if not still:
        await _check_running(source)
        await _check_other(source, target)
    await retried(source.finish_moves, StoreUnavailable)
    for kind in Kind:
        await _compare_first(source, target, kind)
    copied = {kind: await _copy_kind(source, target, kind, report, idle) for kind in Kind}
    await idle()
    if still:
        await _bury_owners(source, target)
    else:
        await _check_running(source)
    found = [await _verified(source, target, kind, copied[kind], report) for kind in Kind]
    await _unmark(target)
    return found


async def refuse_beating(store: Store, hint: str = "stop it first") -> None:
    """Refuse while a node beats. One that was killed did not say farewell: it is listened to for a while."""
    before = {each.id: each.beat for each in await store.list_nodes() if each.state is NodeState.ALIVE}
    for _ in range(LOOKS if before else 0):
        await asyncio.sleep(BETWEEN)
        for node in await store.list_nodes():
            if node.state is NodeState.ALIVE and before.get(node.id) != node.beat:
                message = f"store: the node {node.id} (pid {node.pid} on {node.host}) works on it: {hint}"
                raise Refused(message, field="store", value=node.id, allowed="a store without living nodes")


async def _bury_owners(source: Store, target: Store) -> None:
    """Note all nodes with runs as dead: the first node that starts takes over, as after a crash."""
    now, running = await source.now(), RunFilter(states=frozenset({RunState.RUNNING}), limit=ROWS, longest=0)
    owners: set[NodeId] = set()
    while runs := await source.list_runs(running):
        owners |= {run.node_id for run in runs if run.node_id is not None}
        running = replace(running, before=runs[-1].id)
    known = {each.id: each for each in await source.list_nodes()}
    nobody = partial(NodeRecord, host="", boot_id="", pid=0, version="", started=now, state=NodeState.ALIVE)
    observer = nobody(id=NodeId(uuid7(now, token_bytes)), concurrency=0)
    for record in (observer, *(known.get(each) or nobody(id=each, concurrency=1) for each in sorted(owners))):
        await target.register(replace(record, beat=0, state=NodeState.ALIVE, left=None))
        if record is not observer:
            await target.bury(record.id, 0, observer.id, now)
    await target.leave(observer.id, now)


async def prepare_source(source: Store) -> None:
    """Refuse a store that can't be copied, and migrate an older one."""
    if (await source.schema()).version is None:
        raise Refused("FROM: there are no tables of Tokimori in that store", field="from", allowed="a store in use")
    await prepare_schema(source)
    await refuse_unfinished(source)


async def _check_idle(*stores: tuple[str, Store]) -> None:
    for name, store in stores:
        for node in await store.list_nodes(limit=1):
            if node.state is NodeState.ALIVE:
                raise Refused(
                    f"{name}: the node {node.id} (pid {node.pid} on {node.host}) works there: stop it. If it is dead "
                    f"already, start another one there, which declares it dead within 10 s, and stop that one",
                    field=name.lower(),
                    value=node.id,
                    allowed="a store without living nodes",
                )


async def _check_running(source: Store) -> None:
    for run in await source.list_runs(RunFilter(states=frozenset({RunState.RUNNING}), limit=1, longest=0)):
        raise Refused(
            f"FROM: the run {run.id} of {run.job_id!r} was left running by a node that is gone: start a node there, "
            "which takes it over, and stop it again",
            field="from",
            value=run.id,
            allowed="a store without running runs",
        )


async def _check_other(source: Store, target: Store) -> None:
    """Refuse to copy a store onto itself, however its URLs are spelt: a mark in the target is none of the source."""
    kind, name, text = UNFINISHED.kind, "probe", token_hex(16)
    with suppress(NotFound):  # of a copy that was killed
        old = await retried(partial(target.get_document, kind, name), StoreUnavailable)
        await retried(partial(target.delete_document, kind, name, old.version), StoreUnavailable)
    probe = Document(kind=kind, name=name, text=text, version=1)
    await retried(partial(target.put_document, probe, None), StoreUnavailable)
    try:
        found = await retried(partial(source.get_document, kind, name), StoreUnavailable)
    except NotFound:
        return
    finally:
        await retried(partial(target.delete_document, kind, name, probe.version), StoreUnavailable)
    if found.text == text:
        raise Refused("TO: it is the store FROM itself", field="to", allowed="another store")


async def _compare_first(source: Store, target: Store, kind: Kind) -> None:
    """Compare the first rows of a kind, before anything is written. Raises `Conflict`."""
    first = await _page(target, kind, None, 1)
    if first and first != await _page(source, kind, None, 1):
        raise _mixed(kind, first[0])


def _mixed(kind: Kind, row: Row) -> Conflict:
    key = " ".join(map(str, key_of(row)))
    return Conflict(
        f"TO: its {kind} are not those of FROM, as {key} shows: copy to an empty store, or to one that holds a part of "
        "this very copy and was not used since",
        field="to",
        value=key,
        allowed="an empty store",
    )


async def _page(store: Store, kind: Kind, after: Key | None, limit: int) -> Sequence[Row]:
    match kind:
        case Kind.JOBS:
            jobs = await store.list_jobs(after=None if after is None else JobId(str(after[0])), limit=limit)
            for job in jobs:
                _check_readable(job)
            return jobs
        case Kind.PAUSES:
            pauses = await store.list_pauses()
            return [each for each in pauses if after is None or key_of(each) > after][:limit]
        case Kind.DOCUMENTS:
            documents = await store.export_rows(kind, after, limit + 2)  # those of copies are none of the copied
            return [each for each in documents if key_of(each)[0] != UNFINISHED.kind][:limit]
        case _:
            return await store.export_rows(kind, after, limit)


def _check_readable(job: Job) -> None:
    if isinstance(job.definition.target, Unreadable):
        raise Refused(
            f"FROM: this version of Tokimori can't read the job {job.id!r} ({job.definition.target.why}): copy with "
            "the version that wrote it",
            field="from",
            value=job.id,
        )


async def _pages(store: Store, kind: Kind) -> AsyncIterator[Sequence[Row]]:
    """Yield all rows of a kind, in pages."""
    after: Key | None = None
    while rows := await retried(partial(_page, store, kind, after, _limit(kind)), StoreUnavailable):
        yield rows
        after = key_of(rows[-1])


def _limit(kind: Kind) -> int:
    match kind:
        case Kind.DOCUMENTS:
            return DOCUMENTS
        case Kind.OUTPUTS:
            return OUTPUTS
        case Kind.COUNTS:
            return COUNTS
        case _:
            return ROWS


async def _copy_kind(source: Store, target: Store, kind: Kind, report: ReportStep, idle: Idle) -> tuple[int, int]:
    """Copy one kind of rows; return the number of its rows, and of the written ones."""
    after: Key | None = None
    done = written = 0
    async for rows in _pages(source, kind):
        known = await retried(partial(_page, target, kind, after, len(rows)), StoreUnavailable)
        for ours, theirs in zip(known, rows, strict=False):
            if ours != theirs:
                raise _mixed(kind, ours)
        if missing := rows[len(known) :]:
            if not written:
                await _mark(source, target, idle)
            await retried(partial(_write, target, kind, missing), FamilyChanged, StoreUnavailable)
        after = key_of(rows[-1])
        done, written = done + len(rows), written + len(missing)
        report(CopyStep(kind=kind, verifying=False, rows=done))
    for row in await _page(target, kind, after, 1):
        raise _mixed(kind, row)
    return done, written


async def _mark(source: Store, target: Store, idle: Idle) -> None:
    """Mark the target. A node that joins meanwhile is seen here, or sees the mark."""
    with suppress(NotFound):
        await retried(partial(target.get_document, UNFINISHED.kind, UNFINISHED.name), StoreUnavailable)
        return
    await retried(partial(target.put_document, UNFINISHED, None), StoreUnavailable)
    try:
        await idle()
        await asyncio.sleep(2 * target.looks_every)
        for kind in Kind:
            await _compare_first(source, target, kind)
    except (Conflict, Refused):
        await _unmark(target)
        raise


async def _unmark(target: Store) -> None:
    whole = partial(target.delete_document, UNFINISHED.kind, UNFINISHED.name, UNFINISHED.version)
    await retried(whole, StoreUnavailable)


async def _write(store: Store, kind: Kind, rows: Sequence[Row]) -> None:
    jobs = [row for row in rows if isinstance(row, Job)]
    pauses = [row for row in rows if isinstance(row, Pause)]
    others = [row for row in rows if not isinstance(row, Job | Pause)]
    if jobs:
        await store.add_jobs(jobs, (await store.family()).version)
    for pause in pauses:
        await store.add_pause(pause)
    if others:
        await store.import_rows(kind, others)


async def _verified(
    source: Store, target: Store, kind: Kind, copied: tuple[int, int], report: ReportStep
) -> KindCopied:
    rows_copied, written = copied
    tallies = CopyTally(), CopyTally()
    for tally, store in zip(tallies, (source, target), strict=True):
        async for rows in _pages(store, kind):
            tally.add(rows)
            done = sum(each.rows for each in tallies)
            report(CopyStep(kind=kind, verifying=True, rows=done, total=2 * rows_copied))
    ours, theirs = tallies
    if (ours.rows, ours.digest) != (theirs.rows, theirs.digest):
        raise Conflict(
            f"the {kind} differ after the copy: {ours.rows} rows with the digest {ours.digest[:12]} in FROM, "
            f"{theirs.rows} with {theirs.digest[:12]} in TO. If FROM was changed meanwhile, empty TO and copy again",
            field=kind,
        )
    return KindCopied(kind=kind, rows=ours.rows, written=written, digest=ours.digest)
