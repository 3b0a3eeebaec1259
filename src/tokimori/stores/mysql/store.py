"""The MariaDB and MySQL store: one method is one transaction, repeated if the server undid it."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial, wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar

from tokimori.clock import Clock, Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job
from tokimori.model.run import Skip
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import Outside, SchemaStatus
from tokimori.stores.mysql import jobs, lines, moves, nodes, runs, semaphores, working
from tokimori.stores.mysql.address import MysqlAddress
from tokimori.stores.mysql.schema import LONGEST, known_migrations, migrate, status
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import sql
from tokimori.stores.notices import Notices, with_notice
from tokimori.stores.reading import TableReader
from tokimori.stores.rows import BIRTH, Row, marks
from tokimori.stores.rules.lines import MOST_STEPS, StillMoving
from tokimori.stores.server_store import ServerStore, forwarded

P = ParamSpec("P")
T = TypeVar("T")
# A table's age, but for the quarters of an hour by which time zones differ, tells a copy of the database apart.
_WHERE = """SELECT CONCAT_WS(' ', @@hostname, @@port, @@socket, @@datadir, DATABASE(), (
    SELECT MOD(UNIX_TIMESTAMP(create_time), 900) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name = 'tokimori_jobs'))"""
# Nothing is read where others write: that would lock it for as long as the program likes.
_ADD = f"""INSERT IGNORE INTO tokimori_runs ({BIRTH}, attempt, failures, lost, token)
VALUES ({marks(BIRTH)}, 0, 0, 0, 0)""".replace('"', "`")
_KNOWN = """(SELECT id FROM tokimori_runs WHERE incarnation = ? AND origin = ? LOCK IN SHARE MODE)
UNION ALL (SELECT id FROM tokimori_history WHERE incarnation = ? AND request = ?)"""
_DURABLE = {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON"}


def transacted(
    work: Callable[Concatenate[Transaction, P], Awaitable[T]],
) -> Callable[Concatenate["MysqlStore", P], Coroutine[Any, Any, T]]:
    """Return the method that does this work in a transaction."""

    @wraps(work)
    async def method(store: "MysqlStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return await store.db.transact(lambda transaction: work(transaction, *args, **kwargs))
            except StillMoving as moving:
                await store.move_runs(moving.incarnation, count())

    return method


class MysqlStore(ServerStore[Sessions], TableReader):
    """A `Store` in a MariaDB or MySQL database. The server's clock is the store's; `clock` only dates migrations.

    These servers send no notices: only changes by this object's own callers wake at once.
    """

    _due, _nodes = jobs.DUE, nodes.NODES_HERE
    _if_new = "ON DUPLICATE KEY UPDATE version = version"
    _has_bytes = _has_text = "LOCATE(%s, {}) > 0"

    def __init__(self, address: MysqlAddress, clock: Clock) -> None:
        super().__init__(address.name, partial(Sessions, address), Notices())
        self._namespace, self._clock = address.namespace, clock
        self._known = known_migrations()
        self._ticks = nodes.Ticks()

    async def _greet(self, db: Sessions) -> Sequence[str]:
        return await _faults(db)

    async def _select(self, statement: str, *values: object) -> Sequence[Row]:
        return await self.db.rows(sql(statement, *values))

    async def _change(self, statement: str, *values: object) -> int:
        return (await self.db.ask(sql(statement, *values)))[0].changed

    async def outside(self) -> Outside:
        where, add, known = map(self._namespace.rendered, (_WHERE, _ADD, _KNOWN))
        (here,) = await self.db.rows(where)
        return Outside(driver="mysql", where=where, here=here, add=add, known=known, checks=False)

    async def schema(self) -> SchemaStatus:
        return await self.db.use(lambda session: status(session, self._known))

    async def migrate(self) -> SchemaStatus:
        now = self._clock.now()
        return await self.db.use(lambda session: migrate(session, self._known, now), LONGEST)

    async def move_runs(self, job: Incarnation, steps: Iterable[int]) -> None:
        """Move the runs of a job after its change, some at a time: others get their turn, ticks do the rest."""
        for _ in steps:
            if await self.db.transact(lambda transaction: moves.move_runs(transaction, job)):
                return

    async def finish_moves(self) -> None:
        for (job,) in await self.db.rows("SELECT incarnation FROM tokimori_moves"):
            await self.move_runs(job, count())

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        await self._replace_job(old, new, skips, family)
        await self.move_runs(old.incarnation, range(MOST_STEPS))
        self.send_notice()

    async def delete_job(self, job_id: JobId, now: Moment, known: Job | None = None) -> None:
        await self.move_runs(await self._delete_job(job_id, now, known), range(MOST_STEPS))
        self.send_notice()

    add_jobs = with_notice(transacted(jobs.add_jobs))
    family, _replace_job = transacted(jobs.family), transacted(jobs.replace_job)
    _delete_job = transacted(jobs.delete_job)
    add_pause, promote = transacted(lines.add_pause), transacted(jobs.promote)
    add_run, add_runs = with_notice(transacted(runs.add_run)), with_notice(transacted(runs.add_runs))
    list_runs, last_runs, runs_of = forwarded(runs.list_runs), forwarded(runs.last_runs), forwarded(runs.runs_of)
    _cancel_run, _leave_line = transacted(runs.cancel_run), transacted(runs.leave_line)
    due, apply, outdated = forwarded(jobs.due), transacted(jobs.apply), forwarded(jobs.outdated)
    now, register = forwarded(nodes.now), transacted(nodes.register)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        return await self._ticks.tick(self.db, self.beats, beat)

    survey, bury, leave = forwarded(nodes.survey), transacted(nodes.bury), transacted(nodes.leave)
    orphans, save_outputs = forwarded(nodes.orphans), forwarded(working.save_outputs)
    _claim, settle = forwarded(working.claim), transacted(working.settle)
    put_semaphore = with_notice(transacted(semaphores.put_semaphore))
    list_semaphores, get_semaphore = forwarded(semaphores.list_semaphores), forwarded(semaphores.get_semaphore)
    delete_semaphore, acquire = transacted(semaphores.delete_semaphore), transacted(semaphores.acquire)
    release, import_rows = with_notice(transacted(semaphores.release)), transacted(runs.import_rows)
    prune, prune_nodes = transacted(runs.prune), transacted(runs.prune_nodes)


async def _faults(db: Sessions) -> tuple[str, ...]:
    """Return a sentence for each setting of the server that breaks a promise."""
    names = ", ".join(f"'{name}'" for name in _DURABLE)
    rows = await db.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})")
    return tuple(
        f"the server has {name} = {value}: what it acknowledged can be lost when its machine fails"
        for name, value in sorted(rows)
        if value != _DURABLE[name]
    )
