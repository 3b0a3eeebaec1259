"""The MariaDB and MySQL store: its parts together, and what opens and closes them."""

from collections.abc import Callable, Sequence

from tokimori.clock import Clock
from tokimori.errors import StoreError
from tokimori.ports.store import SchemaStatus
from tokimori.stores.migrations import no_script
from tokimori.stores.mysql import schema
from tokimori.stores.mysql.address import Address
from tokimori.stores.mysql.copying import MysqlCopying
from tokimori.stores.mysql.documents import MysqlDocuments
from tokimori.stores.mysql.jobs import MysqlJobs
from tokimori.stores.mysql.nodes import MysqlNodes
from tokimori.stores.mysql.pauses import MysqlPauses
from tokimori.stores.mysql.planning import MysqlPlanning
from tokimori.stores.mysql.pruning import MysqlPruning
from tokimori.stores.mysql.runs import MysqlRuns
from tokimori.stores.mysql.semaphores import MysqlSemaphores
from tokimori.stores.mysql.sessions import Sessions
from tokimori.stores.mysql.working import MysqlWorking

MOST_SESSIONS = 8
"""Of one store, besides one for beats, which wait for nothing else."""
_DURABLE = {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON"}


class MysqlStore(
    MysqlJobs,
    MysqlDocuments,
    MysqlPauses,
    MysqlRuns,
    MysqlPlanning,
    MysqlNodes,
    MysqlWorking,
    MysqlSemaphores,
    MysqlCopying,
    MysqlPruning,
):
    """A `Store` in a MariaDB or MySQL database. The server's clock is the store's; `clock` only dates migrations.

    Belongs to the event loop that opened it.
    """

    def __init__(self, address: Address, clock: Clock) -> None:
        super().__init__(address)
        self._clock = clock
        self._known = schema.known_migrations()
        self._faults: tuple[str, ...] = ()

    async def open(self) -> None:
        sessions = Sessions(self._address, MOST_SESSIONS)
        try:
            self._faults = await _faults(sessions)
        except StoreError:
            await sessions.close()
            raise
        self._sessions, self._beats = sessions, Sessions(self._address, 1)

    async def close(self) -> None:
        for sessions in (self._sessions, self._beats):
            if sessions is not None:
                await sessions.close()
        self._sessions = self._beats = None

    async def schema(self) -> SchemaStatus:
        return await self._db.use(lambda session: schema.status(session, self._known))

    async def migrate(self) -> SchemaStatus:
        now = self._clock.now()
        return await self._db.use(lambda session: schema.migrate(session, self._known, now), schema.LONGEST)

    async def script(self, *, whole: bool) -> str:
        raise no_script("MySQL")

    async def differences(self) -> list[str]:
        raise no_script("MySQL")

    def faults(self) -> Sequence[str]:
        return self._faults

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`. These servers notify nobody: only what this object's own callers ask wakes at once."""
        self._watchers.append(wake)


async def _faults(db: Sessions) -> tuple[str, ...]:
    """What this server's settings can't promise."""
    names = ", ".join(f"'{name}'" for name in _DURABLE)
    rows = await db.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})")
    return tuple(
        f"the server has {name} = {value}: what it acknowledged can be lost when its machine fails"
        for name, value in sorted(rows)
        if value != _DURABLE[name]
    )
