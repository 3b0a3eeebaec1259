"""What a database's administrator gets of the tables: the SQL that makes them, and what is wrong with them."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.stores.actors import Worker, add_job, add_runs
from tests.contract.stores.conftest import STORES, StoppedClock, forget
from tests.servers import postgres
from tokimori.errors import Refused
from tokimori.ports.store import Store
from tokimori.service.schema import prepare_schema
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.open import open_store


@dataclass(frozen=True, slots=True)
class Database:
    """An empty database, and its own tool, to which a text of statements is given."""

    url: str
    tool: Callable[[str], object]

    async def opened(self) -> Store:
        """A store there, as it is."""
        store = open_store(self.url, StoppedClock())
        await store.open()
        return store


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """One of each kind."""
    if request.param == "sqlite":
        db = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
        yield Database(f"sqlite://{tmp_path / 't.db'}", db.executescript)
        db.close()
        return
    server = postgres.server()
    server.sql("CREATE ROLE dba LOGIN")
    server.sql("CREATE DATABASE by_hand OWNER dba")
    url = server.url("by_hand").replace("postgres@", "dba@")
    yield Database(url, lambda text: server.sql(text, "by_hand", "dba"))
    server.drop("by_hand")
    server.sql("DROP ROLE dba")


@pytest.mark.parametrize("kind", STORES)
async def test_who_comes_while_tables_are_made_finds_them_whole(kind: str, tmp_path: Path) -> None:
    """Who looks while another one makes the tables sees none of them or all, and so is not told to migrate."""
    one, other = STORES[kind](tmp_path), STORES[kind](tmp_path)
    seen = set()
    try:
        await one.open()
        await other.open()
        making = asyncio.create_task(prepare_schema(one))
        while not making.done():
            seen.add((await other.schema()).version)
            await asyncio.sleep(0)
        await making
        assert seen <= {None, (await one.schema()).newest}
    finally:
        await one.close()
        await other.close()
        forget(kind, tmp_path)


async def test_tables_made_by_hand_are_those_that_are_made(database: Database) -> None:
    """The script makes all tables without a superuser; nothing is pending then, nothing differs, and nodes work."""
    store = await database.opened()
    script = await store.script(whole=False)
    assert script == await store.script(whole=True)
    database.tool(script)
    status = await store.schema()
    assert (status.version, status.pending) == (status.newest, ())
    assert await store.differences() == []
    assert await store.script(whole=False) == ""
    await add_runs(store, await add_job(store), 1)
    assert len(await (await Worker.join(store)).claim()) == 1
    await store.close()


async def test_a_script_is_carried_out_once(database: Database) -> None:
    """A second time it fails as a whole."""
    store = await database.opened()
    script = await store.script(whole=True)
    database.tool(script)
    with pytest.raises(Exception, match=r"already exists|returned non-zero"):
        database.tool(script)
    assert await store.differences() == []
    await store.close()


async def test_tables_that_are_made_do_not_differ(database: Database) -> None:
    """Migrating and asking leave nothing behind that differs, however often."""
    store = await database.opened()
    await store.migrate()
    assert await store.differences() == await store.differences() == []
    await store.close()


async def test_an_empty_database_lacks_every_table(database: Database) -> None:
    """Each is named."""
    store = await database.opened()
    found = await store.differences()
    assert {"the table tokimori_jobs is missing", "the table tokimori_runs is missing"} <= set(found)
    await store.close()


async def test_what_somebody_changed_is_named(database: Database) -> None:
    """A dropped index and a dropped column; an index that somebody added is not ours to judge."""
    store = await database.opened()
    await store.migrate()
    database.tool(
        "DROP INDEX tokimori_jobs_due; ALTER TABLE tokimori_attempts DROP COLUMN signal; "
        "CREATE INDEX of_ours ON tokimori_jobs (updated);"
    )
    assert await store.differences() == [
        "the column tokimori_attempts.signal is missing",
        "the index tokimori_jobs.tokimori_jobs_due is missing",
    ]
    await store.close()


async def test_how_an_index_is_stored_is_its_administrators_to_say(tmp_path: Path) -> None:
    """Who gives the pages of PostgreSQL's indexes more room, or less, is told of no difference."""
    store = open_store(postgres.loans.url_of(tmp_path), StoppedClock())
    await store.open()
    await store.migrate()
    for change in (
        "runs_origin RESET (fillfactor)",
        "runs_running RESET (deduplicate_items)",
        "jobs_due SET (fillfactor = 70)",
    ):
        await store.db.rows(f"ALTER INDEX tokimori_{change}")  # type: ignore[attr-defined]
    assert await store.differences() == []
    await store.close()
    postgres.loans.give_back(tmp_path)


async def test_a_function_that_somebody_changed_is_named(tmp_path: Path) -> None:
    """What PostgreSQL does itself is compared by its text."""
    store = open_store(postgres.loans.url_of(tmp_path), StoppedClock())
    await store.open()
    await store.migrate()
    name = store._functions.rendered("tokimori_begin_move(").rstrip("(")  # type: ignore[attr-defined]
    terms = "_incarnation bigint, _forced_lane text, _reason text, _since bigint, _priority_was integer DEFAULT NULL"
    made = f"CREATE OR REPLACE FUNCTION {name}({terms}) RETURNS void LANGUAGE sql AS $$ {{}} $$"
    text = await store.db.value("SELECT prosrc FROM pg_proc WHERE proname = $1", name)  # type: ignore[attr-defined]
    await store.db.rows(made.format("SELECT NULL::void"))  # type: ignore[attr-defined]
    (found,) = await store.differences()
    await store.db.rows(f"{made.partition('$$')[0]} $tokimori${text}$tokimori$")  # type: ignore[attr-defined]
    shown = terms.removesuffix(" DEFAULT NULL")
    assert found.startswith(f"the function {name}({shown}) is the text with checksum")
    assert await store.differences() == []
    await store.close()
    postgres.loans.give_back(tmp_path)


async def test_a_store_without_sql_says_so() -> None:
    """Refused, with what makes its tables."""
    store = MemoryStore(StoppedClock())
    for ask in (store.differences, lambda: store.script(whole=True)):
        with pytest.raises(Refused, match="db migrate"):
            await ask()
