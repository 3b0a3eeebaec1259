"""The PostgreSQL store: one method is one statement or one function of the database, each its own transaction."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from os import urandom
from typing import Any

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
from tokimori.model.decide import Plan
from tokimori.model.ids import NodeId, RunId
from tokimori.model.transitions import ENDS
from tokimori.ports.nodes import Beat, NodeRecord, Pulse
from tokimori.ports.store import SchemaStatus
from tokimori.ports.working import Change, Verdict
from tokimori.stores.forwarding import forwarded, telling
from tokimori.stores.notices import Notices
from tokimori.stores.postgres import (
    copying,
    documents,
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
        name = urandom(8).hex()
        hearing = None if address.pooled else lambda wake: hear(address, name, wake)
        self._notices = Notices(lambda: notify(self.db, address, name), hearing)
        self._closing = AsyncExitStack()

    async def open(self) -> None:
        sessions = Connections(self._address, MOST_SESSIONS, self._functions, self._make_functions)
        beats = Connections(self._address, 1, self._functions, self._make_functions)
        try:
            self._faults = await _faults(sessions)
            await sessions.use(lambda session: schema.note_use(session, self._functions, self._clock.now()))
        except StoreError:
            await sessions.close()
            raise
        self._sessions, self._beats = sessions, beats
        for part in (sessions, beats):
            self._closing.push_async_callback(part.close)

    async def close(self) -> None:
        await self._notices.close()
        await self._closing.aclose()
        self._sessions = self._beats = None

    @property
    def db(self) -> Connections:
        """Its connections. Raises `StoreError` while it is closed."""
        if self._sessions is None:
            raise StoreError(f"store {self._address.name} is not open")
        return self._sessions

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

    def faults(self) -> Sequence[str]:
        return self._faults

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`. What this object's own callers ask of jobs and runs wakes at once."""
        self._notices.watch(wake)

    def tell(self) -> None:
        """Tell everybody."""
        self._notices.tell()

    add_jobs = telling(forwarded(jobs.add_jobs))
    family = forwarded(jobs.family)
    get_job = forwarded(jobs.get_job)
    list_jobs = forwarded(jobs.list_jobs)
    replace_job = telling(forwarded(jobs.replace_job))
    delete_job = telling(forwarded(jobs.delete_job))
    deleted_job = forwarded(jobs.deleted_job)
    get_due = forwarded(jobs.get_due)
    skips = forwarded(jobs.list_skips)
    put_document = forwarded(documents.put_document)
    get_document = forwarded(documents.get_document)
    list_documents = forwarded(documents.list_documents)
    delete_document = forwarded(documents.delete_document)
    add_pause = forwarded(pauses.add_pause)
    delete_pause = telling(forwarded(pauses.delete_pause))
    list_pauses = forwarded(pauses.list_pauses)
    add_run = telling(forwarded(runs.add_run))
    get_run = forwarded(runs.get_run)
    list_runs = forwarded(runs.list_runs)
    last_runs = forwarded(runs.last_runs)
    attempts = forwarded(runs.attempts)
    output = forwarded(runs.output)
    cancel_run = telling(forwarded(runs.cancel_run))
    hold_run = telling(forwarded(runs.hold_run))
    resume_run = telling(forwarded(runs.resume_run))
    due = forwarded(planning.due)

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        answers = await planning.apply(self.db, plans, now)
        if any(plan.runs for plan, _ in plans):
            self._notices.tell_others()
        return answers

    outdated = forwarded(planning.outdated)
    promote = forwarded(planning.promote)

    async def register(self, node: NodeRecord) -> None:
        await nodes.register(self.db, node)
        # Settle and claim, apply and promote fall together: each finds a session. Nothing is planned in advance: plans
        # that are made while the tables are empty are bad, and are kept.
        await asyncio.gather(*(self.db.rows("SELECT 1") for _ in range(FIRST_SESSIONS)))

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        if self._beats is None:
            raise StoreError(f"store {self._address.name} is not open")
        return await nodes.tick(self._beats, beat)

    survey = forwarded(nodes.survey)
    bury = forwarded(nodes.bury)
    leave = forwarded(nodes.leave)
    orphans = forwarded(nodes.orphans)
    list_nodes = forwarded(nodes.list_nodes)
    claim = forwarded(working.claim)

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        await asyncio.sleep(0)  # a claim that is asked for together with it goes first: packing takes a while
        verdicts, served = await working.settle(self.db, changes, by)
        if served or any(change.state not in ENDS for change in changes):
            self._notices.tell_others()
        return verdicts

    save_outputs = forwarded(working.save_outputs)
    put_semaphore = telling(forwarded(semaphores.put_semaphore))
    list_semaphores = forwarded(semaphores.list_semaphores)
    get_semaphore = forwarded(semaphores.get_semaphore)
    delete_semaphore = forwarded(semaphores.delete_semaphore)
    acquire = forwarded(semaphores.acquire)
    release = telling(forwarded(semaphores.release))
    export_rows = forwarded(copying.export_rows)
    import_rows = forwarded(copying.import_rows)
    prune = forwarded(pruning.prune)
    deleted_jobs = forwarded(pruning.deleted_jobs)
    prune_nodes = forwarded(pruning.prune_nodes)
    counts = forwarded(pruning.counts)


async def _faults(db: Connections) -> tuple[str, ...]:
    """What this server's settings can't promise."""
    rows = await db.rows(
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
    )
    off = sorted(name for name, setting in rows if setting == "off")
    return tuple(
        f"the server has {name} = off: what it acknowledged can be lost when its machine fails" for name in off
    )
