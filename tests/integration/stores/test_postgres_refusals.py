"""What a PostgreSQL store says when it can't be used: what is wrong, and what to do."""

import asyncio
import socket

import asyncpg
import pytest

from tests.contract.stores.actors import add_job
from tests.integration.stores.conftest import Networked, free_port
from tokimori.clock import SystemClock
from tokimori.errors import SchemaMismatch, StoreError, StoreUnavailable
from tokimori.model.ids import JobId
from tokimori.ports.store import Store
from tokimori.stores.notices import NoticeListener
from tokimori.stores.open import open_store
from tokimori.stores.postgres import connections
from tokimori.stores.postgres.address import PostgresAddress, address_of


async def refusal(url: str) -> StoreError:
    """The error with which a store can't be opened, or gets no tables."""
    store = open_store(url, SystemClock())
    with pytest.raises(StoreError) as refused:
        await store.open()
        await store.migrate()
    await store.close()
    assert "tiger" not in str(refused.value)
    return refused.value


async def opened(url: str) -> Store:
    """An open store with its tables."""
    store = open_store(url, SystemClock())
    await store.open()
    await store.migrate()
    return store


async def test_a_user_without_special_rights_is_enough(networked: Networked) -> None:
    """The owner of a database makes its tables and works with them, over TCP and with a password."""
    store = await opened(networked.url())
    job = await add_job(store, "over-tcp")
    assert await store.get_job(job.id) == job
    await store.close()


async def test_an_unreachable_server(networked: Networked) -> None:
    """Where nobody listens, trying again can help."""
    error = await refusal(f"postgresql://ann:tiger@127.0.0.1:{free_port()}/jobs")
    assert isinstance(error, StoreUnavailable)
    assert "can't be reached" in error.message
    assert "check that the server runs" in error.message


async def test_an_unknown_host() -> None:
    """A host without address may get one."""
    error = await refusal("postgresql://ann:tiger@no-such-host.invalid/jobs")
    assert isinstance(error, StoreUnavailable)
    assert "can't be reached" in error.message


async def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and is silent is given up after the patience."""
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = await refusal(f"postgresql://ann:tiger@127.0.0.1:{silent.getsockname()[1]}/jobs")
    assert isinstance(error, StoreUnavailable)
    assert "does not answer" in error.message


@pytest.mark.parametrize(
    ("terms", "advice"),
    [
        ({"password": "lion"}, "check user and password in the URL"),
        ({"user": "nobody"}, "check user and password in the URL"),
        ({"database": "missing"}, "make it with `createdb`"),
        ({"database": "barred"}, "GRANT it CREATE and USAGE"),
        ({"query": "?sslmode=require"}, "set up TLS on the server, or say sslmode=prefer"),
        ({"user": "stern"}, "say sslmode=require"),
        ({"query": "?sslmode=perhaps"}, "settings can't be used"),
    ],
)
async def test_what_only_a_person_can_mend(networked: Networked, terms: dict[str, str], advice: str) -> None:
    """A wrong password, a missing database, missing rights and TLS on one side only are named, with the remedy."""
    error = await refusal(networked.url(**terms))
    assert not isinstance(error, StoreUnavailable)
    assert advice in error.message


async def test_missing_tables(networked: Networked) -> None:
    """A store without tables says which command makes them."""
    networked.server.make("bare")
    store = open_store(networked.server.url("bare"), SystemClock())
    await store.open()
    with pytest.raises(SchemaMismatch, match="run `tokimori db migrate`"):
        await store.get_job(JobId("any"))
    await store.close()


async def test_a_newer_schema(networked: Networked) -> None:
    """A schema that this version does not know is refused, and left as it is."""
    store = await opened(networked.server.make("newer"))
    networked.server.sql("INSERT INTO tokimori_schema_migrations VALUES (99, '0099_later', 'x', 0, 99)", "newer")
    assert (await store.schema()).version == 99
    with pytest.raises(SchemaMismatch, match="number 99, which nodes since number 99 can use; this version"):
        await store.migrate()
    await store.close()


async def test_a_newer_schema_that_allows_it(networked: Networked) -> None:
    """A newer schema is used where every newer migration says that it may be."""
    store = await opened(networked.server.make("beside"))
    networked.server.sql("INSERT INTO tokimori_schema_migrations VALUES (99, '0099_later', 'x', 0, 1)", "beside")
    assert not (await store.migrate()).too_new
    networked.server.sql("INSERT INTO tokimori_schema_migrations VALUES (100, '0100_last', 'x', 0, 99)", "beside")
    assert (await store.schema()).too_new
    await store.close()


async def test_a_changed_migration(networked: Networked) -> None:
    """A migration whose text is not the one that was applied is named."""
    store = await opened(networked.server.make("changed"))
    networked.server.sql("UPDATE tokimori_schema_migrations SET checksum = 'x' WHERE version = 1", "changed")
    with pytest.raises(SchemaMismatch, match="0001_tables was changed"):
        await store.schema()
    await store.close()


async def test_the_sql_of_an_empty_store_depends_on_no_store(networked: Networked) -> None:
    """`db sql --all` says the same wherever it is asked, also where a migration was changed."""
    store = await opened(networked.server.make("elsewhere"))
    whole = (await store.script(whole=True)).split("VALUES", 1)[0]
    networked.server.sql("UPDATE tokimori_schema_migrations SET checksum = 'x' WHERE version = 1", "elsewhere")
    assert (await store.script(whole=True)).startswith(whole)
    await store.close()


async def test_a_database_that_takes_no_writes_is_read(networked: Networked) -> None:
    """That the functions are used can't be noted there, which keeps nobody from reading."""
    url = networked.server.make("readonly")
    store = await opened(url)
    job = await add_job(store, "seen")
    await store.close()
    networked.server.sql("UPDATE tokimori_function_sets SET used = 0", "readonly")
    networked.server.sql("ALTER DATABASE readonly SET default_transaction_read_only = on")
    reader = open_store(url, SystemClock())
    await reader.open()
    assert await reader.get_job(job.id) == job
    with pytest.raises(StoreUnavailable, match="read-only"):
        await reader.delete_job(job.id, job.created)
    await reader.close()


async def test_each_statement_sees_what_was_committed_before_it(networked: Networked) -> None:
    """Limits are counted behind a lock: what the database's own setting says of isolation is not taken."""
    url = networked.server.make("isolated")
    networked.server.sql("ALTER DATABASE isolated SET default_transaction_isolation = 'serializable'")
    store = await opened(url)
    assert await store.db.value("SHOW transaction_isolation") == "read committed"  # type: ignore[attr-defined]
    await store.close()


async def test_many_nodes_migrate_at_once(networked: Networked) -> None:
    """Of several nodes that start on an empty database, one makes the tables and all find them made."""
    url = networked.server.make("crowded")
    stores = [open_store(url, SystemClock()) for _ in range(6)]
    for store in stores:
        await store.open()
    found = await asyncio.gather(*(store.migrate() for store in stores))
    assert {status.pending for status in found} == {()}
    for store in stores:
        await store.close()


async def test_work_goes_on_after_sessions_were_ended(networked: Networked) -> None:
    """A session that the server ended costs one call at most; the next one has another session."""
    store = await opened(networked.server.make("cut"))
    job = await add_job(store, "cut")
    networked.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cut'")
    try:
        await store.get_job(job.id)
    except StoreUnavailable as error:
        assert "tried again" not in error.message
    assert await store.get_job(job.id) == job
    await store.close()


async def test_a_lock_that_is_not_had_is_given_up(networked: Networked) -> None:
    """Whoever waits for a row that another program keeps locked hears of it within 4 s, and can go on."""
    store = await opened(networked.server.make("locked"))
    job = await add_job(store, "locked")
    session = await connections.connect(store._address)  # type: ignore[attr-defined]
    async with session.transaction():
        await session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await session.execute("SELECT FROM tokimori_jobs FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="locked for over 2 s"):
            await store.delete_job(job.id, job.created)
    await session.close()
    await store.delete_job(job.id, job.created)
    await store.close()


class Deaf:
    """A session in which nothing can be listened to, as with a server in recovery."""

    def add_termination_listener(self, _told: object) -> None:
        """Never told."""

    async def add_listener(self, _channel: str, _hear: object) -> None:
        """What a server in recovery answers."""
        raise asyncpg.ObjectNotInPrerequisiteStateError("cannot execute LISTEN during recovery")

    def terminate(self) -> None:
        """Nothing to end."""


async def test_a_server_that_can_not_be_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes connections but no LISTEN is asked again after a pause, not all the time."""
    tries = 0

    async def deaf(_address: PostgresAddress) -> Deaf:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0)
        return Deaf()

    monkeypatch.setattr(connections, "connect", deaf)
    address = address_of("postgresql://ann@127.0.0.1/jobs")
    listener = NoticeListener(lambda: connections.listen(address, "me", lambda _: None))
    await asyncio.sleep(0.35)
    await listener.close()
    assert 2 <= tries <= 4
