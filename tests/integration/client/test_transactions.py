"""Runs that are asked for in a program's own transaction, over the connections that programs have."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
import psycopg
import psycopg2
import pytest
import sqlalchemy
from django.conf import settings
from django.db.backends.postgresql.base import DatabaseWrapper as DjangoPostgres
from django.db.backends.sqlite3.base import DatabaseWrapper as DjangoSqlite
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from tests.integration.cli.conftest import Program, stop
from tests.servers import postgres
from tokimori.apps.app import App
from tokimori.client.asynchronous import open_async
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter

SOLD = "INSERT INTO orders VALUES (1)"
PATIENCE = 30.0


class Shop:
    """A program with a table of its own beside the store's, and its connection."""

    def __init__(self, url: str, connection: Any, execute: Callable[[str], Any], end: Any) -> None:
        self.url = url
        self.connection = connection
        self.execute = execute
        self._end = end

    def commit(self) -> None:
        """The transaction holds."""
        self._end.commit()

    def rollback(self) -> None:
        """The transaction never was."""
        self._end.rollback()

    def close(self) -> None:
        """Go."""
        self._end.close()


def by_sqlite3(url: str) -> Shop:
    """The standard library, with rows of its own kind."""
    connection = sqlite3.connect(_path(url))
    connection.row_factory = sqlite3.Row
    return Shop(url, connection, connection.execute, connection)


def by_psycopg(url: str) -> Shop:
    """psycopg, with rows that are dicts."""
    connection = psycopg.connect(url, row_factory=dict_row)
    return Shop(url, connection, connection.execute, connection)


def by_psycopg2(url: str) -> Shop:
    """psycopg2."""
    connection = psycopg2.connect(url)
    return Shop(url, connection, lambda text: connection.cursor().execute(text), connection)


def by_sqlalchemy(url: str, driver: str = "") -> Shop:
    """A connection of SQLAlchemy, whichever driver it has."""
    made = sqlalchemy.create_engine(_for_sqlalchemy(url, driver), poolclass=sqlalchemy.NullPool)
    connection = made.connect()
    return Shop(url, connection, lambda text: connection.execute(sqlalchemy.text(text)), connection)


def by_session(url: str) -> Shop:
    """A session of SQLAlchemy's ORM."""
    session = Session(sqlalchemy.create_engine(_for_sqlalchemy(url), poolclass=sqlalchemy.NullPool))
    return Shop(url, session, lambda text: session.execute(sqlalchemy.text(text)), session)


def by_django(url: str) -> Shop:
    """Django's, in a transaction."""
    named = {
        "TIME_ZONE": None,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False,
        "AUTOCOMMIT": True,
        "ATOMIC_REQUESTS": False,
    }
    account = {"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
    connection: Any
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    if url.startswith("sqlite"):
        connection = DjangoSqlite({**named, **account, "NAME": _path(url)})
    else:
        parts = psycopg.conninfo.conninfo_to_dict(url)
        given = {"NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"], "PORT": parts["port"]}
        connection = DjangoPostgres({**named, **account, **given})
    connection.set_autocommit(False)

    def execute(text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)

    return Shop(url, connection, execute, connection)


def _path(url: str) -> str:
    return url.removeprefix("sqlite://")


def _for_sqlalchemy(url: str, driver: str = "") -> str:
    if url.startswith("sqlite"):
        return url.replace("sqlite:///", "sqlite:////") if not url.startswith("sqlite:////") else url
    return url.replace("postgresql://", f"postgresql+{driver or 'psycopg'}://")


SHOPS: dict[str, tuple[str, Callable[[str], Shop]]] = {
    "sqlite3": ("sqlite", by_sqlite3),
    "sqlalchemy-sqlite": ("sqlite", by_sqlalchemy),
    "session-sqlite": ("sqlite", by_session),
    "django-sqlite": ("sqlite", by_django),
    "psycopg": ("postgresql", by_psycopg),
    "psycopg2": ("postgresql", by_psycopg2),
    "sqlalchemy-psycopg": ("postgresql", by_sqlalchemy),
    "sqlalchemy-psycopg2": ("postgresql", lambda url: by_sqlalchemy(url, "psycopg2")),
    "session-psycopg": ("postgresql", by_session),
    "django-psycopg": ("postgresql", by_django),
}
EACH = tuple(SHOPS)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Empty databases, by their kind: their URLs."""

    def url_of(kind: str) -> str:
        return f"sqlite://{tmp_path}/t.db" if kind == "sqlite" else postgres.loans.url_of(tmp_path)

    yield url_of
    if tmp_path in postgres.loans._lent:
        postgres.server().sql("DROP TABLE IF EXISTS orders", postgres.loans._lent[tmp_path])
        postgres.loans.give_back(tmp_path)


@pytest.fixture
def shop(request: pytest.FixtureRequest, place: Callable[[str], str]) -> Iterator[Shop]:
    """A shop beside a store with the job `deliver`, and a table of orders."""
    kind, make = SHOPS[request.param]
    url = place(kind)
    with open_client(url) as client:
        client.add("deliver", noop=True)
    found = make(url)
    found.execute("CREATE TABLE orders (id integer)")
    found.commit()
    yield found
    found.close()


def orders(shop: Shop) -> list[Any]:
    """What is in the table, as another program sees it."""
    if shop.url.startswith("sqlite"):
        with sqlite3.connect(_path(shop.url)) as other:
            return other.execute("SELECT id FROM orders").fetchall()
    with psycopg.connect(shop.url) as peer:
        return peer.execute("SELECT id FROM orders").fetchall()


def runs(client: Client) -> list[str]:
    """The ids of all runs."""
    return [run.id for run in client.list_runs(RunFilter())]


@pytest.mark.parametrize("shop", EACH, indirect=True)
def test_a_run_exists_exactly_if_the_transaction_commits(shop: Shop) -> None:
    """With all that the request says of it; nobody sees it before, and a rollback leaves nothing of it."""
    with open_client(shop.url) as client:
        shop.execute(SOLD)
        undone = client.trigger("deliver", payload={"order": 1}, connection=shop.connection)
        assert runs(client) == []
        shop.rollback()
        assert (runs(client), orders(shop)) == ([], [])
        with pytest.raises(NotFound):
            client.get_run(undone.id)

        shop.execute(SOLD)
        run = client.trigger("deliver", "order-1", {"order": 1}, priority=7, connection=shop.connection)
        assert runs(client) == []
        shop.commit()
        assert (runs(client), orders(shop)) == ([run.id], [(1,)])
        kept = client.get_run(run.id).run
        assert kept == run
        assert (kept.payload, kept.priority, kept.job_id, kept.state) == ('{"order":1}', 7, "deliver", RunState.WAITING)


@pytest.mark.parametrize("shop", EACH, indirect=True)
def test_a_key_gives_one_run_in_a_transaction_too(shop: Shop) -> None:
    """In the same transaction, in the next, and beside requests without one; a rollback frees the key."""
    with open_client(shop.url) as client:
        client.trigger("deliver", "k", connection=shop.connection)
        shop.rollback()
        first = client.trigger("deliver", "k", connection=shop.connection)
        assert client.trigger("deliver", "k", connection=shop.connection).id == first.id
        shop.commit()
        assert client.trigger("deliver", "k").id == first.id
        assert client.trigger("deliver", "k", connection=shop.connection).id == first.id
        shop.rollback()
        assert runs(client) == [first.id]


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg"], indirect=True)
def test_what_was_stopped_meanwhile_does_not_start(shop: Shop) -> None:
    """A job that is paused is refused; one that is deleted before the commit leaves no run that waits for ever."""
    with open_client(shop.url) as client:
        client.pause("deliver")
        with pytest.raises(Refused, match="is paused"):
            client.trigger("deliver", connection=shop.connection)
        client.resume("deliver")
    if shop.url.startswith("sqlite"):
        return  # nobody else writes to the file while a transaction is open
    with open_client(shop.url) as client:
        run = client.trigger("deliver", connection=shop.connection)
        client.pause("deliver")  # returns at once: the transaction has no lock on the job
        shop.commit()
        _promote(shop.url)
        paused = client.get_run(run.id).run
        assert (paused.state, paused.lane) == (RunState.READY, None)
        client.resume("deliver")
        assert client.get_run(run.id).run.lane is not None

        orphan = client.trigger("deliver", connection=shop.connection)
        client.delete("deliver")
        shop.commit()
        _promote(shop.url)
        assert client.get_run(orphan.id).run.state is RunState.CANCELLED


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg"], indirect=True)
def test_a_function_is_asked_for_in_a_transaction(shop: Shop) -> None:
    """By the arguments of its own signature; it runs exactly if the transaction commits."""
    app = App("shop", url=shop.url)

    @app.job()
    def deliver(order: int) -> None:
        pass

    with app.client as client:
        deliver.asked(connection=shop.connection).enqueue(1)
        shop.rollback()
        run = deliver.asked(key="order-2", connection=shop.connection).enqueue(2)
        assert runs(client) == []
        shop.commit()
        assert runs(client) == [run.id]
        assert client.get_run(run.id).run.payload == '{"order":2}'


def _promote(url: str) -> None:
    """What the ticks of nodes do."""
    with open_client(url) as client:

        async def promote(opened: Any) -> None:
            await opened._store.promote(await opened._store.now(), 100)
            await opened._store.finish_moves()

        client._run(promote)


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg"], indirect=True)
def test_what_needs_a_lock_is_refused(shop: Shop) -> None:
    """By the name of the field, and nothing is written."""
    with open_client(shop.url) as client:
        for field, value in (("force", True), ("debounce", 5), ("throttle", 5), ("replace", True)):
            with pytest.raises(InvalidInput) as refused:
                client.trigger("deliver", "k", connection=shop.connection, **{field: value})  # type: ignore[arg-type]
            assert refused.value.field == field
        client.add("few", noop=True, max_running=1, max_waiting=1)
        with pytest.raises(Refused, match="max_waiting"):
            client.trigger("few", connection=shop.connection)
        with pytest.raises(NotFound):
            client.trigger("nothing", connection=shop.connection)
        shop.commit()
        assert runs(client) == []


def test_another_database_is_refused(place: Callable[[str], str], tmp_path: Path) -> None:
    """Of the same kind or another one, and where tables are hidden; the transaction goes on unharmed."""
    lite, server = place("sqlite"), place("postgresql")
    with open_client(lite) as client, sqlite3.connect(tmp_path / "other.db") as other, psycopg.connect(server) as wrong:
        client.add("deliver", noop=True)
        for connection in (other, wrong, sqlite3.connect(":memory:")):
            with pytest.raises(Refused, match="database"):
                client.trigger("deliver", connection=connection)
            connection.execute("SELECT 1")
    elsewhere = postgres.server().url("postgres")
    with open_client(server) as client, psycopg.connect(elsewhere) as other_server, psycopg.connect(server) as hidden:
        client.add("deliver", noop=True)
        hidden.execute("SET search_path = pg_catalog")
        for place_ in (other_server, hidden):
            with pytest.raises(Refused, match="another database"):
                client.trigger("deliver", connection=place_)
            place_.execute("SELECT 1")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_connection_without_a_transaction_is_refused(place: Callable[[str], str], kind: str) -> None:
    """Each statement would commit by itself; where one has begun by hand, it is taken."""
    url = place(kind)
    bare: Any = (
        sqlite3.connect(_path(url), isolation_level=None) if kind == "sqlite" else psycopg.connect(url, autocommit=True)
    )
    with open_client(url) as client:
        client.add("deliver", noop=True)
        engine = sqlalchemy.create_engine(_for_sqlalchemy(url), isolation_level="AUTOCOMMIT")
        with engine.connect() as bare_too:
            for connection in (bare, bare_too):
                with pytest.raises(Refused, match="no transaction"):
                    client.trigger("deliver", connection=connection)
        bare.execute("BEGIN")
        run = client.trigger("deliver", connection=bare)
        bare.execute("COMMIT")
        assert runs(client) == [run.id]
    bare.close()
    engine.dispose()


async def test_asynchronous_programs_have_transactions_too(place: Callable[[str], str]) -> None:
    """By connections that wait, and by asynchronous ones of SQLAlchemy; psycopg's own are refused by name."""
    url = place("postgresql")
    async with open_async(url) as client:
        await client.add("deliver", noop=True)
        engine = create_async_engine(_for_sqlalchemy(url))
        async with engine.connect() as connection:
            undone = await client.trigger("deliver", connection=connection)
            await connection.rollback()
            run = await client.trigger("deliver", connection=connection)
            await connection.commit()
        await engine.dispose()
        assert [each.id for each in await client.list_runs(RunFilter())] == [run.id] != [undone.id]
        async with await psycopg.AsyncConnection.connect(url) as waiting:
            with pytest.raises(InvalidInput, match="AsyncConnection"):
                await client.trigger("deliver", connection=waiting)
    async with open_async("memory:") as client:
        await client.add("deliver", noop=True)
        with sqlite3.connect(":memory:") as memory, pytest.raises(Refused, match="takes no part in transactions"):
            await client.trigger("deliver", connection=memory)


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg"], indirect=True)
def test_a_node_starts_it_when_it_is_committed(shop: Shop, tmp_path: Path) -> None:
    """Soon after the commit, and not before: the node is told, and does not wait for its next look."""
    program = Program(tmp_path)
    program.environment["TOKIMORI_STORE"] = shop.url
    node = program.serve()
    try:
        with open_client(shop.url) as client:
            delays = []
            for _ in range(5):
                shop.execute(SOLD)
                run = client.trigger("deliver", connection=shop.connection)
                time.sleep(0.3)
                committed = client.now()
                shop.commit()
                ended = client.wait(run.id, PATIENCE)
                assert ended.state is RunState.SUCCEEDED and ended.started is not None
                assert ended.started >= committed
                delays.append(ended.started - committed)
        print("from commit to start, in ms:", [delay // 1_000 for delay in delays])
        assert min(delays) < 1_000_000, "a node that is not told looks every 2 s"
    finally:
        assert stop(node) == 0
