"""The MariaDB and MySQL store: one method is one transaction, anew where the server undid it."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tokimori.clock import Clock, Moment
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import SchemaStatus
from tokimori.stores.mysql import copying, documents, jobs, nodes, pauses, planning, pruning, runs, semaphores, working
from tokimori.stores.mysql.address import Address
from tokimori.stores.mysql.schema import LONGEST, known_migrations, migrate, status
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.notices import Notices, telling
from tokimori.stores.server_store import ServerStore, forwarded

P = ParamSpec("P")
T = TypeVar("T")
_DURABLE = {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON"}


def transacted(
    work: Callable[Concatenate[Transaction, P], Awaitable[T]],
) -> Callable[Concatenate["MysqlStore", P], Coroutine[Any, Any, T]]:
    """The method that does this work in a transaction."""

    @wraps(work)
    async def method(store: "MysqlStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.db.transact(lambda transaction: work(transaction, *args, **kwargs))

    return method


class MysqlStore(ServerStore[Sessions]):
    """A `Store` in a MariaDB or MySQL database. The server's clock is the store's; `clock` only dates migrations.

    These servers notify nobody: only what this object's own callers ask wakes at once.
    """

    def __init__(self, address: Address, clock: Clock) -> None:
        super().__init__(address.name, partial(Sessions, address), Notices())
        self._clock = clock
        self._known = known_migrations()
        self._ticks = nodes.Ticks()

    async def _greet(self, db: Sessions) -> Sequence[str]:
        return await _faults(db)

    async def schema(self) -> SchemaStatus:
        return await self.db.use(lambda session: status(session, self._known))

    async def migrate(self) -> SchemaStatus:
        now = self._clock.now()
        return await self.db.use(lambda session: migrate(session, self._known, now), LONGEST)

    add_jobs = telling(transacted(jobs.add_jobs))
    family = transacted(jobs.family)
    get_job = forwarded(jobs.get_job)
    list_jobs = forwarded(jobs.list_jobs)
    replace_job = telling(transacted(jobs.replace_job))
    delete_job = telling(transacted(jobs.delete_job))
    deleted_job = forwarded(jobs.deleted_job)
    get_due = forwarded(jobs.get_due)
    skips = forwarded(jobs.skips)
    put_document = transacted(documents.put_document)
    get_document = forwarded(documents.get_document)
    list_documents = forwarded(documents.list_documents)
    delete_document = transacted(documents.delete_document)
    add_pause = transacted(pauses.add_pause)
    delete_pause = telling(transacted(pauses.delete_pause))
    list_pauses = forwarded(pauses.list_pauses)
    add_run = telling(transacted(runs.add_run))
    get_run = forwarded(runs.get_run)
    list_runs = forwarded(runs.list_runs)
    last_runs = forwarded(runs.last_runs)
    runs_of = forwarded(runs.runs_of)
    attempts = forwarded(runs.attempts)
    output = forwarded(runs.output)
    cancel_run = telling(forwarded(runs.cancel_run))
    hold_run = telling(forwarded(runs.hold_run))
    resume_run = telling(forwarded(runs.resume_run))
    due = forwarded(planning.due)
    apply = transacted(planning.apply)
    outdated = forwarded(planning.outdated)
    promote = transacted(planning.promote)
    now = forwarded(nodes.now)
    register = transacted(nodes.register)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        return await self._ticks.tick(self.db, self.beats, beat)

    survey = forwarded(nodes.survey)
    bury = transacted(nodes.bury)
    leave = transacted(nodes.leave)
    orphans = forwarded(nodes.orphans)
    list_nodes = forwarded(nodes.list_nodes)
    claim = forwarded(working.claim)
    settle = transacted(working.settle)
    put_semaphore = telling(transacted(semaphores.put_semaphore))
    list_semaphores = forwarded(semaphores.list_semaphores)
    get_semaphore = forwarded(semaphores.get_semaphore)
    delete_semaphore = transacted(semaphores.delete_semaphore)
    acquire = transacted(semaphores.acquire)
    release = telling(transacted(semaphores.release))
    save_outputs = forwarded(working.save_outputs)
    export_rows = forwarded(copying.export_rows)
    import_rows = transacted(copying.import_rows)
    prune = transacted(pruning.prune)
    deleted_jobs = forwarded(pruning.deleted_jobs)
    prune_nodes = transacted(pruning.prune_nodes)
    counts = forwarded(pruning.counts)


async def _faults(db: Sessions) -> tuple[str, ...]:
    """What this server's settings can't promise."""
    names = ", ".join(f"'{name}'" for name in _DURABLE)
    rows = await db.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})")
    return tuple(
        f"the server has {name} = {value}: what it acknowledged can be lost when its machine fails"
        for name, value in sorted(rows)
        if value != _DURABLE[name]
    )
