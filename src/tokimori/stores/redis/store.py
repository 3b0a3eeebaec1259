"""The Redis store: one method is one script, which the server runs beside nothing else."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from os import urandom

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
from tokimori.model.decide import Plan
from tokimori.model.ids import NodeId, RunId
from tokimori.model.transitions import ENDS
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import SchemaStatus
from tokimori.ports.working import Change, Verdict
from tokimori.stores.forwarding import forwarded, telling
from tokimori.stores.migrations import no_script
from tokimori.stores.notices import Notices
from tokimori.stores.redis import (
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
from tokimori.stores.redis.address import Address
from tokimori.stores.redis.connections import Connections
from tokimori.stores.redis.notices import hear, notify
from tokimori.stores.redis.promises import read_promises

MOST_CONNECTIONS = 8
"""Of one store, besides one for beats, which wait for nothing else, and one for notices."""


class RedisStore:
    """A `Store` on a Redis or Valkey server. The server's clock is the store's; `clock` only dates migrations.

    Belongs to the event loop that opened it.
    """

    def __init__(self, address: Address, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._faults: Sequence[str] = ()
        self._connections: Connections | None = None
        self._beats: Connections | None = None
        name = urandom(8).hex()
        self._notices = Notices(lambda: notify(self.db, name), lambda wake: hear(address, name, wake))
        self._closing = AsyncExitStack()

    async def open(self) -> None:
        connections = Connections(self._address, MOST_CONNECTIONS)
        beats = Connections(self._address, 1)
        try:
            self._faults = await read_promises(connections)
        except StoreError:
            await connections.close()
            raise
        self._connections, self._beats = connections, beats
        for part in (connections, beats):
            self._closing.push_async_callback(part.close)

    async def close(self) -> None:
        await self._notices.close()
        await self._closing.aclose()
        self._connections = self._beats = None

    @property
    def db(self) -> Connections:
        """Its connections. Raises `StoreError` while it is closed."""
        if self._connections is None:
            raise StoreError(f"store {self._address.name} is not open")
        return self._connections

    async def schema(self) -> SchemaStatus:
        return await schema.status(self.db)

    async def migrate(self) -> SchemaStatus:
        return await schema.migrate(self.db, self._clock.now())

    async def script(self, *, whole: bool) -> str:
        raise no_script("Redis")

    async def differences(self) -> list[str]:
        raise no_script("Redis")

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
    register = forwarded(nodes.register)

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
        verdicts, served = await working.settle(self.db, changes, by)
        if served or any(change.state not in ENDS for change in changes):
            self._notices.tell_others()
        return verdicts

    put_semaphore = telling(forwarded(semaphores.put_semaphore))
    list_semaphores = forwarded(semaphores.list_semaphores)
    get_semaphore = forwarded(semaphores.get_semaphore)
    delete_semaphore = forwarded(semaphores.delete_semaphore)
    acquire = forwarded(semaphores.acquire)
    release = telling(forwarded(semaphores.release))
    save_outputs = forwarded(working.save_outputs)
    export_rows = forwarded(copying.export_rows)
    import_rows = forwarded(copying.import_rows)
    prune = forwarded(pruning.prune)
    deleted_jobs = forwarded(pruning.deleted_jobs)
    prune_nodes = forwarded(pruning.prune_nodes)
    counts = forwarded(pruning.counts)
