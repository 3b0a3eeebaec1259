"""The PostgreSQL store: one method is one statement or one function of the database, each its own transaction."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from os import urandom
from typing import Any

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Run
from tokimori.ports.nodes import Beat, NodeRecord, Pulse
from tokimori.ports.store import Outside, SchemaStatus
from tokimori.stores.notices import Notices, with_notice
from tokimori.stores.postgres import jobs, nodes, runs, schema, semaphores, working
from tokimori.stores.postgres.address import PostgresAddress
from tokimori.stores.postgres.connections import PostgresConnections, channel_of, listen, notify
from tokimori.stores.postgres.schema import known_functions, types_of
from tokimori.stores.reading import TableReader
from tokimori.stores.rows import BIRTH, OUTSIDE_ADD, OUTSIDE_KNOWN, Row
from tokimori.stores.server_store import NotifyingStore, forwarded
from tokimori.turns import Together

_WHERE = """SELECT CAST(pg_postmaster_start_time() AS text), CAST(current_database() AS text),
CAST(CAST(to_regclass('tokimori_jobs') AS oid) AS text)"""
FIRST_SESSIONS = 4
"""Connections that a registering node opens before any job is due."""


class PostgresStore(NotifyingStore[PostgresConnections], TableReader):
    """A `Store` in a PostgreSQL database. The server's clock is the store's; `clock` only dates migrations."""

    _due, _sources, _has_bytes = jobs.DUE, runs.SOURCES_HERE, "position(%s::bytea IN {}) > 0"
    _has_text, _scanned_id = "strpos({}, %s) > 0", "(id || '')"  # the whole table is read faster than by its index

    def __init__(self, address: PostgresAddress, clock: Clock) -> None:
        self._address, self._clock, self._known = address, clock, schema.known_migrations()
        self._functions = known_functions(self._known[-1].version)
        name = urandom(8).hex()
        listening = None if address.pooled else lambda on_notice: listen(address, name, on_notice)
        notices = Notices(lambda words: notify(self.db, address, f"{name} {words}"), listening)
        super().__init__(address.name, self._connections, notices)
        self._job_reads = Together(self._read_job)
        self._born = Together[Incarnation, Run, Run](
            lambda _, born: runs.add_runs(self.db, born, born[-1].created), lambda run: len(run.payload or "")
        )

    def _connections(self, most: int) -> PostgresConnections:
        return PostgresConnections(self._address, most, self._functions, self._make_functions)

    async def _greet(self, db: PostgresConnections) -> Sequence[str]:
        faults = await _faults(db)
        with suppress(StoreError):  # on a standby, or for a user who may only read
            await db.use(lambda session: schema.note_use(session, self._functions, self._clock.now()))
        return faults

    async def _cancelled(self, run_id: RunId, reason: str, now: Moment, unbegun: int | None) -> Run:
        await self._cancel_run(run_id, reason, now, unbegun)
        return await self.get_run(run_id)

    async def _select(self, statement: str, *values: object) -> Sequence[Row]:
        return await self.db.rows(statement % tuple(f"${n}" for n, _ in enumerate(values, 1)), *values)

    async def _change(self, statement: str, *values: object) -> int:
        return len(await self._select(f"{statement} RETURNING 1", *values))

    async def schema(self) -> SchemaStatus:
        return await self.db.use(lambda session: schema.status(session, self._known, self._functions))

    async def migrate(self) -> SchemaStatus:
        now = self._clock.now()
        return await self.db.use(
            lambda session: schema.migrate(session, self._known, self._functions, now), schema.LONGEST
        )

    async def _make_functions(self, session: Any) -> None:
        await schema.make_again(session, self._known, self._functions, self._clock.now())

    async def script(self, *, whole: bool) -> str:
        now = self._clock.now()
        text = await self.db.use(lambda session: schema.script(session, self._known, self._functions, now, whole=whole))
        return self._address.namespace.rendered(text)

    async def differences(self) -> list[str]:
        return await self.db.use(lambda session: schema.check(session, self._known, self._functions), schema.LONGEST)

    async def outside(self) -> Outside:
        named, add = self._address.namespace.rendered, OUTSIDE_ADD.format(", ".join(f"?::{t}" for t in types_of(BIRTH)))
        (here,), notice = await self.db.rows(_WHERE), ("SELECT pg_notify(?, '')", (channel_of(self._address),))
        where, add, known = named(_WHERE), named(add), named(OUTSIDE_KNOWN)
        return Outside(driver="postgresql", where=where, here=tuple(here), add=add, known=known, notice=notice)

    family, finish_moves = forwarded(jobs.family), forwarded(jobs.finish_moves)
    replace_job, delete_job = with_notice(forwarded(jobs.replace_job)), with_notice(forwarded(jobs.delete_job))
    add_pause, promote = forwarded(jobs.add_pause), forwarded(jobs.promote)
    add_jobs, add_runs = with_notice(forwarded(jobs.add_jobs)), with_notice(forwarded(runs.add_runs))
    list_runs, last_runs, runs_of = forwarded(runs.list_runs), forwarded(runs.last_runs), forwarded(runs.runs_of)
    tallies = forwarded(runs.tallies)
    _cancel_run, _leave_line = forwarded(runs.cancel_run), forwarded(runs.leave_line)
    due, _apply, outdated = forwarded(jobs.due), forwarded(jobs.apply), forwarded(jobs.outdated)

    async def get_job(self, job_id: JobId) -> Job:
        return await self._job_reads(job_id, None)

    async def _read_job(self, job_id: JobId, callers: Sequence[None]) -> Sequence[Job]:
        return [await TableReader.get_job(self, job_id)] * len(callers)

    @with_notice
    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        return await (self._born(run.incarnation, run) if manner == PLAIN else runs.add_run(self.db, run, manner, now))

    async def register(self, node: NodeRecord) -> None:
        await nodes.register(self.db, node)
        # Settle and claim, apply and promote fall together: each finds a session. Nothing is planned in advance: plans
        # that are made while the tables are empty are bad, and are kept.
        await asyncio.gather(*(self.db.rows("SELECT 1") for _ in range(FIRST_SESSIONS)))

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        return await nodes.tick(self.beats, beat)

    survey, bury, leave = forwarded(nodes.survey), forwarded(nodes.bury), forwarded(nodes.leave)
    orphans, now = forwarded(nodes.orphans), forwarded(nodes.now)
    _claim, _settle, save_outputs = forwarded(working.claim), forwarded(working.settle), forwarded(working.save_outputs)
    list_semaphores, get_semaphore = forwarded(semaphores.list_semaphores), forwarded(semaphores.get_semaphore)
    delete_semaphore, acquire = forwarded(semaphores.delete_semaphore), forwarded(semaphores.acquire)
    put_semaphore = with_notice(forwarded(semaphores.put_semaphore))
    release = with_notice(forwarded(semaphores.release))
    import_rows = forwarded(runs.import_rows)
    prune, prune_nodes = forwarded(runs.prune), forwarded(runs.prune_nodes)


async def _faults(db: PostgresConnections) -> tuple[str, ...]:
    """Return a sentence for each setting of the server that breaks a promise."""
    rows = await db.rows(
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
    )
    off = sorted(name for name, setting in rows if setting == "off")
    return tuple(
        f"the server has {name} = off: what it acknowledged can be lost when its machine fails" for name in off
    )
