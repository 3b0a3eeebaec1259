"""The PostgreSQL store: one method is one statement or one function of the database, each its own transaction."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from os import urandom
from typing import Any

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
from tokimori.model.calendar import Calendar
from tokimori.model.decide import Due, Plan
from tokimori.model.ids import Incarnation, JobId, NodeId, PermitId, RunId
from tokimori.model.job import Job
from tokimori.model.pause import Pause
from tokimori.model.request import PLAIN, Manner
from tokimori.model.retention import DailyCount, Expiry
from tokimori.model.run import Attempt, Output, Run, Skip
from tokimori.model.transitions import ENDS
from tokimori.ports.copying import Copied, Key, Kind
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.planning import ALL, Share
from tokimori.ports.semaphores import Answer, Semaphore, Wish
from tokimori.ports.store import Family, RunFilter, SchemaStatus
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.notices import Listener, Sender
from tokimori.stores.postgres import (
    calendars,
    copying,
    jobs,
    nodes,
    pauses,
    planning,
    pruning,
    runs,
    schema,
    semaphores,
    working,
)
from tokimori.stores.postgres.address import Address
from tokimori.stores.postgres.connections import Connections
from tokimori.stores.postgres.function_set import known_functions
from tokimori.stores.postgres.notices import hear, notify

MOST_SESSIONS = 8
"""Of one store, besides one for beats, which wait for nothing else, and one for notices."""
FIRST_SESSIONS = 4
"""Of those, what a node that registers has open before anything is due."""


class PostgresStore:
    """A `Store` in a PostgreSQL database. The server's clock is the store's; `clock` only dates migrations.

    Belongs to the event loop that opened it.
    """

    def __init__(self, address: Address, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._known = schema.known_migrations()
        self._functions = known_functions(self._known[-1].version)
        self._faults: tuple[str, ...] = ()
        self._sessions: Connections | None = None
        self._beats: Connections | None = None
        self._name = urandom(8).hex()
        self._watchers: list[Callable[[], None]] = []
        self._listener: Listener | None = None
        self._sender: Sender | None = None
        self._closing = AsyncExitStack()

    async def open(self) -> None:
        """See `Schema.open`."""
        sessions = Connections(self._address, MOST_SESSIONS, self._functions, self._make_functions)
        beats = Connections(self._address, 1, self._functions, self._make_functions)
        try:
            self._faults = await _faults(sessions)
            await sessions.use(lambda session: schema.note_use(session, self._functions, self._clock.now()))
        except StoreError:
            await sessions.close()
            raise
        self._sender = Sender(lambda: notify(sessions, self._address, self._name))
        self._sessions, self._beats = sessions, beats
        for part in (sessions, beats, self._sender):
            self._closing.push_async_callback(part.close)

    async def close(self) -> None:
        """See `Schema.close`."""
        if self._listener is not None:
            await self._listener.close()
        await self._closing.aclose()
        self._listener = self._sender = self._sessions = self._beats = None

    @property
    def _db(self) -> Connections:
        if self._sessions is None:
            raise StoreError(f"store {self._address.name} is not open")
        return self._sessions

    async def schema(self) -> SchemaStatus:
        """See `Schema.schema`."""
        return await self._db.use(lambda session: schema.status(session, self._known, self._functions))

    async def migrate(self) -> SchemaStatus:
        """See `Schema.migrate`."""
        now = self._clock.now()
        return await self._db.use(
            lambda session: schema.migrate(session, self._known, self._functions, now), schema.LONGEST
        )

    async def _make_functions(self, session: Any) -> None:
        await schema.make_again(session, self._known, self._functions, self._clock.now())

    async def script(self, *, whole: bool) -> str:
        """See `Schema.script`."""
        now = self._clock.now()
        text = await self._db.use(
            lambda session: schema.script(session, self._known, self._functions, now, whole=whole)
        )
        return self._address.namespace.rendered(text)

    async def differences(self) -> list[str]:
        """See `Schema.differences`."""
        return await self._db.use(lambda session: schema.check(session, self._known, self._functions), schema.LONGEST)

    def faults(self) -> Sequence[str]:
        """See `Schema.faults`."""
        return self._faults

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`. What this object's own callers ask of jobs and runs wakes at once."""
        self._watchers.append(wake)
        if self._listener is None and not self._address.pooled:
            self._listener = Listener(lambda: hear(self._address, self._name, self._wake))

    def _wake(self) -> None:
        for wake in self._watchers:
            wake()

    def _tell_others(self) -> None:
        if self._sender is not None:
            self._sender.send()

    def _tell(self) -> None:
        """What people ask of jobs and runs is news to everybody."""
        self._wake()
        self._tell_others()

    async def add_jobs(self, jobs_: Sequence[Job], family: int | None = None) -> None:
        """See `Jobs.add_jobs`."""
        await jobs.add_jobs(self._db, jobs_, family)
        self._tell()

    async def family(self) -> Family:
        """See `Jobs.family`."""
        return await jobs.family(self._db)

    async def get_job(self, job_id: JobId) -> Job:
        """See `Jobs.get_job`."""
        return await jobs.get_job(self._db, job_id)

    async def list_jobs(self, *, after: JobId | None = None, limit: int = 1000, idle: bool = False) -> list[Job]:
        """See `Jobs.list_jobs`."""
        return await jobs.list_jobs(self._db, after, limit, idle=idle)

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        """See `Jobs.replace_job`."""
        await jobs.replace_job(self._db, old, new, skips, family)
        self._tell()

    async def delete_job(self, job_id: JobId, now: Moment) -> None:
        """See `Jobs.delete_job`."""
        await jobs.delete_job(self._db, job_id, now)
        self._tell()

    async def deleted_job(self, job_id: JobId) -> Job:
        """See `Jobs.deleted_job`."""
        return await jobs.deleted_job(self._db, job_id)

    async def get_due(self, job_id: JobId) -> Due:
        """See `Jobs.get_due`."""
        return await jobs.get_due(self._db, job_id)

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        """See `Jobs.skips`."""
        return await jobs.list_skips(self._db, job_id, limit)

    async def put_calendar(self, calendar: Calendar) -> None:
        """See `Calendars.put_calendar`."""
        await calendars.put_calendar(self._db, calendar)

    async def get_calendar(self, name: str) -> Calendar:
        """See `Calendars.get_calendar`."""
        return await calendars.get_calendar(self._db, name)

    async def list_calendars(self) -> list[Calendar]:
        """See `Calendars.list_calendars`."""
        return await calendars.list_calendars(self._db)

    async def delete_calendar(self, name: str) -> None:
        """See `Calendars.delete_calendar`."""
        await calendars.delete_calendar(self._db, name)

    async def add_pause(self, pause: Pause) -> Pause:
        """See `Pausing.add_pause`."""
        return await pauses.add_pause(self._db, pause)

    async def delete_pause(self, queue: str) -> None:
        """See `Pausing.delete_pause`."""
        await pauses.delete_pause(self._db, queue)
        self._tell()

    async def list_pauses(self) -> list[Pause]:
        """See `Pausing.list_pauses`."""
        return await pauses.list_pauses(self._db)

    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        """See `Runs.add_run`."""
        run = await runs.add_run(self._db, run, now, manner)
        self._tell()
        return run

    async def get_run(self, run_id: RunId) -> Run:
        """See `Runs.get_run`."""
        return await runs.get_run(self._db, run_id)

    async def list_runs(self, wanted: RunFilter) -> list[Run]:
        """See `Runs.list_runs`."""
        return await runs.list_runs(self._db, wanted)

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        """See `Runs.attempts`."""
        return await runs.attempts(self._db, run_id)

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        """See `Runs.output`."""
        return await runs.output(self._db, run_id, attempt)

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment) -> Run:
        """See `Runs.cancel_run`."""
        run = await runs.cancel_run(self._db, run_id, reason, now)
        self._tell()
        return run

    async def hold_run(self, run_id: RunId, reason: str) -> Run:
        """See `Runs.hold_run`."""
        run = await runs.hold_run(self._db, run_id, reason)
        self._tell()
        return run

    async def resume_run(self, run_id: RunId) -> Run:
        """See `Runs.resume_run`."""
        run = await runs.resume_run(self._db, run_id)
        self._tell()
        return run

    async def due(self, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        """See `Planning.due`."""
        return await planning.due(self._db, now, limit, share)

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """See `Planning.apply`."""
        answers = await planning.apply(self._db, plans, now)
        if any(plan.runs for plan, _ in plans):
            self._tell_others()
        return answers

    async def outdated(self, tzdata: str, limit: int) -> list[Job]:
        """See `Planning.outdated`."""
        return await planning.outdated(self._db, tzdata, limit)

    async def promote(self, now: Moment, limit: int) -> int:
        """See `Planning.promote`."""
        return await planning.promote(self._db, now, limit)

    async def register(self, node: NodeRecord) -> None:
        """See `Nodes.register`."""
        await nodes.register(self._db, node)
        # Settle and claim, apply and promote fall together: each finds a session. Nothing is planned in advance: plans
        # that are made while the tables are empty are bad, and are kept.
        await asyncio.gather(*(self._db.rows("SELECT 1") for _ in range(FIRST_SESSIONS)))

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `Nodes.tick`."""
        if self._beats is None:
            raise StoreError(f"store {self._address.name} is not open")
        return await nodes.tick(self._beats, beat)

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`."""
        return await nodes.survey(self._db, past)

    async def bury(self, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
        """See `Nodes.bury`."""
        return await nodes.bury(self._db, dead, beat, by, now)

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """See `Nodes.leave`."""
        return await nodes.leave(self._db, node, now)

    async def orphans(self, limit: int) -> list[Claimed]:
        """See `Nodes.orphans`."""
        return await nodes.orphans(self._db, limit)

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """See `Nodes.list_nodes`."""
        return await nodes.list_nodes(self._db, limit)

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`."""
        return await working.claim(self._db, claim, now)

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        await asyncio.sleep(0)  # a claim that is asked for together with it goes first: packing takes a while
        verdicts, served = await working.settle(self._db, changes, by)
        if served or any(change.state not in ENDS for change in changes):
            self._tell_others()
        return verdicts

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """See `Working.save_outputs`."""
        await working.save_outputs(self._db, outputs)

    async def put_semaphore(self, name: str, limit: int, now: Moment) -> None:
        """See `Semaphores.put_semaphore`."""
        await semaphores.put_semaphore(self._db, name, limit)
        self._tell()

    async def list_semaphores(self, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
        """See `Semaphores.list_semaphores`."""
        return await semaphores.list_semaphores(self._db, after, limit)

    async def get_semaphore(self, name: str) -> Semaphore:
        """See `Semaphores.get_semaphore`."""
        return await semaphores.get_semaphore(self._db, name)

    async def delete_semaphore(self, name: str) -> None:
        """See `Semaphores.delete_semaphore`."""
        await semaphores.delete_semaphore(self._db, name)

    async def acquire(self, wish: Wish, now: Moment) -> Answer:
        """See `Semaphores.acquire`."""
        return await semaphores.acquire(self._db, wish, now)

    async def release(self, permit: PermitId, node: NodeId, now: Moment) -> bool:
        """See `Semaphores.release`."""
        held = await semaphores.release(self._db, permit, node)
        self._tell()
        return held

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        """See `Copying.export_rows`."""
        return await copying.export_rows(self._db, kind, after, limit)

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        """See `Copying.import_rows`."""
        await copying.import_rows(self._db, kind, rows)

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> int:
        """See `Pruning.prune`."""
        return await pruning.prune(self._db, expiries, limit)

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        """See `Pruning.deleted_jobs`."""
        return await pruning.deleted_jobs(self._db, after, limit)

    async def prune_nodes(self, before: Moment, limit: int) -> int:
        """See `Pruning.prune_nodes`."""
        return await pruning.prune_nodes(self._db, before, limit)

    async def counts(self, job_id: JobId) -> list[DailyCount]:
        """See `Pruning.counts`."""
        return await pruning.counts(self._db, job_id)


async def _faults(db: Connections) -> tuple[str, ...]:
    """What this server's settings can't promise."""
    rows = await db.rows(
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
    )
    off = sorted(name for name, setting in rows if setting == "off")
    return tuple(
        f"the server has {name} = off: what it acknowledged can be lost when its machine fails" for name in off
    )
