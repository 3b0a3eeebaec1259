"""Runs that are asked for in a program's own transaction, over the connections that programs have."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from tests.integration.cli.conftest import Program, stop
from tests.integration.client.shops import EACH, SHOPS, SOLD, Shop, for_sqlalchemy, path_of, place_of
from tests.servers import mariadb, postgres
from tokimori.apps.app import App
from tokimori.client.client import Client, open_async
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.request import EXPIRY
from tokimori.model.transitions import RunState

PATIENCE = 30.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Empty databases, by their kind: their URLs."""

    def url_of(kind: str) -> str:
        match kind:
            case "sqlite":
                return f"sqlite://{tmp_path}/t.db"
            case "mariadb":
                return mariadb.loans.url_of(tmp_path)
            case _:
                return postgres.loans.url_of(tmp_path)

    yield url_of
    if tmp_path in postgres.loans._lent:
        postgres.server().sql("DROP TABLE IF EXISTS orders", postgres.loans._lent[tmp_path])
        postgres.loans.give_back(tmp_path)
    if tmp_path in mariadb.loans._lent:
        mariadb.server().sql("DROP TABLE IF EXISTS orders", mariadb.loans._lent[tmp_path])
        mariadb.loans.give_back(tmp_path)


@pytest.fixture
def shop(request: pytest.FixtureRequest, place: Callable[[str], str]) -> Iterator[Shop]:
    """A shop beside a store with the job `deliver`, and a table of orders."""
    kind, make = SHOPS[request.param]
    url = place(kind)
    with open_client(url) as client:
        client.jobs.add("deliver", noop=True)
    found = make(url)
    found.execute("CREATE TABLE orders (id integer)")
    found.commit()
    yield found
    found.close()


def orders(shop: Shop) -> list[Any]:
    """What is in the table, as another program sees it."""
    if shop.url.startswith("sqlite"):
        with sqlite3.connect(path_of(shop.url)) as other:
            return other.execute("SELECT id FROM orders").fetchall()
    if shop.url.startswith("mariadb"):
        with pymysql.connect(**place_of(shop.url)) as same:
            looks = same.cursor()
            looks.execute("SELECT id FROM orders")
            return list(looks.fetchall())
    with psycopg.connect(shop.url) as peer:
        return peer.execute("SELECT id FROM orders").fetchall()


def runs(client: Client) -> list[str]:
    """The ids of all runs."""
    return [run.id for run in client.runs.list()]


@pytest.mark.parametrize("shop", EACH, indirect=True)
def test_a_run_exists_exactly_if_the_transaction_commits(shop: Shop) -> None:
    """With all that the request says of it; nobody sees it before, and a rollback leaves nothing of it."""
    with open_client(shop.url) as client:
        shop.execute(SOLD)
        undone = client.within(shop.connection).jobs.trigger("deliver", payload={"order": 1})
        assert runs(client) == []
        shop.rollback()
        assert (runs(client), orders(shop)) == ([], [])
        with pytest.raises(NotFound):
            client.runs.get(undone.id)

        shop.execute(SOLD)
        run = client.within(shop.connection).jobs.trigger("deliver", "order-1", {"order": "№ 1"}, priority=7)
        assert runs(client) == []
        shop.commit()
        assert (runs(client), orders(shop)) == ([run.id], [(1,)])
        kept = client.runs.get(run.id)
        assert next(iter(client.runs.list())) == run
        assert (kept.payload, kept.priority, kept.job_id) == ('{"order":"№ 1"}', 7, "deliver")
        assert kept.state is RunState.WAITING


@pytest.mark.parametrize("shop", EACH, indirect=True)
def test_a_key_gives_one_run_in_a_transaction_too(shop: Shop) -> None:
    """In the same transaction, in the next, and beside requests without one; a rollback frees the key."""
    with open_client(shop.url) as client:
        client.within(shop.connection).jobs.trigger("deliver", "k")
        shop.rollback()
        first = client.within(shop.connection).jobs.trigger("deliver", "k")
        assert client.within(shop.connection).jobs.trigger("deliver", "k").id == first.id
        shop.commit()
        assert client.jobs.trigger("deliver", "k").id == first.id
        assert client.within(shop.connection).jobs.trigger("deliver", "k").id == first.id
        shop.rollback()
        assert runs(client) == [first.id]


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg", "pymysql"], indirect=True)
def test_what_was_stopped_meanwhile_does_not_start(shop: Shop) -> None:
    """A job that is paused is refused; one that is deleted before the commit leaves no run that waits for ever."""
    with open_client(shop.url) as client:
        client.jobs.pause("deliver")
        with pytest.raises(Refused, match="is paused"):
            client.within(shop.connection).jobs.trigger("deliver")
        client.jobs.resume("deliver")
    if shop.url.startswith("sqlite"):
        return  # nobody else writes to the file while a transaction is open
    with open_client(shop.url) as client:
        run = client.within(shop.connection).jobs.trigger("deliver")
        client.jobs.pause("deliver")  # returns at once: the transaction has no lock on the job
        shop.commit()
        _promote(shop.url)
        paused = client.runs.get(run.id)
        assert paused.state is RunState.READY
        client.jobs.resume("deliver")

        orphan = client.within(shop.connection).jobs.trigger("deliver")
        client.jobs.delete("deliver")
        shop.commit()
        _promote(shop.url)
        assert client.runs.get(orphan.id).state is RunState.CANCELLED


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg", "pymysql"], indirect=True)
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
        assert client.runs.get(run.id).payload == '{"order":2}'


@pytest.mark.parametrize("kind", ["pymysql", "psycopg"])
def test_a_key_that_a_transaction_can_not_see_gives_its_run(place: Callable[[str], str], kind: str) -> None:
    """It began before another program asked: it gets that run, live or ended, and keeps nobody from ending it."""
    made, make = SHOPS[kind]
    url = place(made)
    with open_client(url) as client:
        client.jobs.add("deliver", noop=True)
        shop = make(url)
        shop.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        shop.execute("SELECT id FROM tokimori_runs")
        first = client.jobs.trigger("deliver", "k")
        assert client.within(shop.connection).jobs.trigger("deliver", "k").id == first.id
        client.runs.cancel(first.id)
        assert client.within(shop.connection).jobs.trigger("deliver", "k").id == first.id
        shop.commit()
        assert runs(client) == [first.id]
        shop.close()


def _promote(url: str) -> None:
    """What the ticks of nodes do."""
    with open_client(url) as client:

        async def promote(opened: Any) -> None:
            await opened._shared.store.promote(await opened._shared.store.now(), 100)
            await opened._shared.store.finish_moves()

        client._run(promote)


@pytest.mark.parametrize(
    "shop", ["sqlite3", "django-sqlite", "psycopg", "sqlalchemy-psycopg2", "pymysql"], indirect=True
)
def test_the_moment_of_a_run_that_expires_is_noted(shop: Shop) -> None:
    """In the same transaction, and only if that commits."""
    with open_client(shop.url) as client:
        client.within(shop.connection).jobs.trigger("deliver", expires="1h")
        shop.rollback()
        run = client.within(shop.connection).jobs.trigger("deliver", expires="2h")
        shop.commit()
        assert client.runs.get(run.id).expires is not None
        found = client._run(lambda opened: opened._shared.store.list_documents(EXPIRY, limit=9))
        assert [each.name.partition(" ")[2] for each in found] == [run.id]


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg", "pymysql"], indirect=True)
def test_what_needs_a_lock_is_refused(shop: Shop) -> None:
    """By the name of the field, and nothing is written."""
    with open_client(shop.url) as client:
        for field, value in (
            ("force", True),
            ("debounce", 5),
            ("throttle", 5),
            ("replace", True),
            ("unique", "until_end"),
        ):
            with pytest.raises(InvalidInput) as refused:
                client.within(shop.connection).jobs.trigger("deliver", "k", **{field: value})  # type: ignore[arg-type]
            assert refused.value.field == field
        client.jobs.add("few", noop=True, max_running=1, max_waiting=1)
        with pytest.raises(Refused, match="max_waiting"):
            client.within(shop.connection).jobs.trigger("few")
        with pytest.raises(NotFound):
            client.within(shop.connection).jobs.trigger("nothing")
        shop.commit()
        assert runs(client) == []


def test_another_database_is_refused(place: Callable[[str], str], tmp_path: Path) -> None:
    """Of the same kind or another one, and where tables are hidden; the transaction goes on unharmed."""
    lite, server = place("sqlite"), place("postgresql")
    with open_client(lite) as client, sqlite3.connect(tmp_path / "other.db") as other, psycopg.connect(server) as wrong:
        client.jobs.add("deliver", noop=True)
        for connection in (other, wrong, sqlite3.connect(":memory:")):
            with pytest.raises(Refused, match="database"):
                client.within(connection).jobs.trigger("deliver")
            connection.execute("SELECT 1")
    shared = place("mariadb")
    with open_client(shared) as client, pymysql.connect(**{**place_of(shared), "database": "mysql"}) as near:
        client.jobs.add("deliver", noop=True)
        for elsewhere in (near, sqlite3.connect(":memory:")):
            with pytest.raises(Refused, match="database"):
                client.within(elsewhere).jobs.trigger("deliver")
        near.query("SELECT 1")
    with (
        open_client(server) as client,
        psycopg.connect(postgres.server().url("postgres")) as other_server,
        psycopg.connect(server) as hidden,
    ):
        client.jobs.add("deliver", noop=True)
        hidden.execute("SET search_path = pg_catalog")
        for place_ in (other_server, hidden):
            with pytest.raises(Refused, match="another database"):
                client.within(place_).jobs.trigger("deliver")
            place_.execute("SELECT 1")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_connection_without_a_transaction_is_refused(place: Callable[[str], str], kind: str) -> None:
    """Each statement would commit by itself; where one has begun by hand, it is taken."""
    url = place(kind)
    bare: Any
    match kind:
        case "sqlite":
            bare = sqlite3.connect(path_of(url), isolation_level=None)
        case "mariadb":
            bare = pymysql.connect(**place_of(url), autocommit=True)
        case _:
            bare = psycopg.connect(url, autocommit=True)
    execute = bare.query if kind == "mariadb" else bare.execute
    with open_client(url) as client:
        client.jobs.add("deliver", noop=True)
        engine = sqlalchemy.create_engine(for_sqlalchemy(url), isolation_level="AUTOCOMMIT")
        with engine.connect() as bare_too:
            for connection in (bare, bare_too):
                with pytest.raises(Refused, match="no transaction"):
                    client.within(connection).jobs.trigger("deliver")
        execute("BEGIN")
        run = client.within(bare).jobs.trigger("deliver")
        execute("COMMIT")
        assert runs(client) == [run.id]
    bare.close()
    engine.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "mysql+aiomysql", "mysql+asyncmy"])
async def test_asynchronous_programs_have_transactions_too(place: Callable[[str], str], driver: str) -> None:
    """By asynchronous connections of SQLAlchemy."""
    url = place("postgresql" if driver == "psycopg" else "mariadb")
    async with open_async(url) as client:
        await client.jobs.add("deliver", noop=True)
        engine = create_async_engine(for_sqlalchemy(url, driver))
        async with engine.connect() as connection:
            undone = await client.within(connection).jobs.trigger("deliver")
            await connection.rollback()
            run = await client.within(connection).jobs.trigger("deliver")
            await connection.commit()
        await engine.dispose()
        assert [each.id for each in await client.runs.list()] == [run.id] != [undone.id]


async def test_what_is_no_known_connection_is_refused(place: Callable[[str], str]) -> None:
    """An asynchronous one of psycopg, by its name; and any by a store whose database has no transactions of others."""
    url = place("postgresql")
    async with open_async(url) as client:
        await client.jobs.add("deliver", noop=True)
        async with await psycopg.AsyncConnection.connect(url) as waiting:
            with pytest.raises(InvalidInput, match="AsyncConnection"):
                await client.within(waiting).jobs.trigger("deliver")
    async with open_async("memory:") as client:
        await client.jobs.add("deliver", noop=True)
        with sqlite3.connect(":memory:") as memory, pytest.raises(Refused, match="takes no part in transactions"):
            await client.within(memory).jobs.trigger("deliver")


@pytest.mark.parametrize("shop", ["sqlite3", "psycopg", "pymysql"], indirect=True)
def test_a_node_starts_it_when_it_is_committed(shop: Shop, tmp_path: Path) -> None:
    """Not before the commit; and soon after it where the server tells nodes, which MariaDB does not."""
    program = Program(tmp_path)
    program.environment["TOKIMORI_STORE"] = shop.url
    node = program.serve()
    try:
        with open_client(shop.url) as client:
            delays = []
            is_handled = not shop.url.startswith("mariadb")
            for _ in range(5 if is_handled else 1):
                shop.execute(SOLD)
                run = client.within(shop.connection).jobs.trigger("deliver")
                time.sleep(0.3)
                committed = client.db.now()
                shop.commit()
                ended = client.runs.wait(run.id, PATIENCE)
                assert ended.state is RunState.SUCCEEDED and ended.started is not None
                assert ended.started >= committed
                delays.append((ended.started - committed).total_seconds())
        print("from commit to start, in ms:", [round(delay * 1_000) for delay in delays])
        assert not is_handled or min(delays) < 1, "a node that is not told looks every 2 s"
    finally:
        assert stop(node) == 0
