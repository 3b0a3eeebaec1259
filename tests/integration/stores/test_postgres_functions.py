"""Programs of several revisions on one PostgreSQL: each calls its own set of functions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from tests.contract.stores.actors import NOW, Worker, add_job, add_runs, later
from tests.servers import postgres
from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch
from tokimori.model.retention import NODES_KEPT
from tokimori.ports.working import Verdict
from tokimori.service.schema import prepare_schema
from tokimori.stores.migrations import Migration
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.schema import function_set, types_of
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.rows import RUN

RESULT = "CASE WHEN state = 'succeeded' THEN result END"
MARK = "by the other text"


@dataclass(frozen=True, slots=True)
class At:
    """A clock that stands still."""

    moment: Moment

    def now(self) -> Moment:
        """Always the same."""
        return self.moment

    def monotonic(self) -> float:
        """Always the same."""
        return 0.0


def program(url: str, *, at: Moment = NOW, newer: str | None = None) -> PostgresStore:
    """The store as a program of today opens it; `newer`: as one that knows a migration more, with this text."""
    store = PostgresStore(address_of(url), At(at))
    if newer is not None:
        store._known.append(Migration("0002_later", newer))
        store._functions = function_set(store._functions.text, 2)
    return store


def revised(
    store: PostgresStore, text: str = RESULT, other: str = RESULT.replace("result", f"'{MARK}'")
) -> PostgresStore:
    """The same program with another text in a function."""
    assert text in store._functions.text
    store._functions = function_set(store._functions.text.replace(text, other), store._functions.schema)
    return store


Opened = Callable[[PostgresStore], Awaitable[PostgresStore]]


@pytest.fixture
def url() -> Iterator[str]:
    """An empty database."""
    server = postgres.server()
    yield server.make("functions")
    server.drop("functions")


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens stores, with their tables and functions, as programs do."""
    async with AsyncExitStack() as closing:

        async def open_(store: PostgresStore) -> PostgresStore:
            await store.open()
            closing.push_async_callback(store.close)
            await prepare_schema(store)
            return store

        yield open_


async def sets(store: PostgresStore) -> set[str]:
    """The digests of the sets that the store says are there; those of which there are functions are the same."""
    noted = await store.db.rows("SELECT digest FROM tokimori_function_sets")
    there = await store.db.rows(
        r"SELECT DISTINCT substring(proname FROM '_([0-9a-f]{8})$') FROM pg_proc WHERE proname LIKE 'tokimori\_wake%'"
    )
    assert set(noted) == set(there)
    return {digest for (digest,) in noted}


def digests(*stores: PostgresStore) -> set[str]:
    """Those of the stores' sets."""
    return {store._functions.digest for store in stores}


async def test_two_revisions_work_each_by_its_own_text(url: str, opened: Opened) -> None:
    """What a program settles is written by its own text, whichever was installed last."""
    today, other = await opened(program(url)), await opened(revised(program(url)))
    assert await sets(today) == digests(today, other)
    job = await add_job(today)
    for store, result in ((other, MARK), (today, None), (other, MARK)):
        worker = await Worker.join(store)
        (run,) = await add_runs(today, job, 1)
        (claimed,) = await worker.claim()
        assert await worker.settle(claimed) is Verdict.APPLIED
        assert (await today.get_run(run.id)).result == result
    assert await today.differences() == await other.differences() == []


async def test_who_opens_the_store_installs_its_functions(url: str, opened: Opened) -> None:
    """No migration is needed for another text: missing functions are pending, and in the script that makes them."""
    await opened(program(url))
    other = revised(program(url))
    await other.open()
    assert (await other.schema()).pending == (f"functions_{other._functions.digest}",)
    script = await other.script(whole=False)
    await prepare_schema(other)
    assert (await other.schema()).pending == ()
    assert await other.script(whole=False) == ""
    await other.close()
    assert "CREATE TABLE" not in script
    assert f"FUNCTION tokimori_settle_{other._functions.digest}(" in script


async def test_a_set_is_gone_some_time_after_its_last_node(url: str, opened: Opened) -> None:
    """It stays while a node lives, and until that node is forgotten; then it goes, and others stay."""
    today, other = await opened(program(url)), await opened(revised(program(url)))
    await Worker.join(today)
    last = await Worker.join(other)
    for before in (NOW, later(1e9)):
        await today.prune_nodes(before, 10)
        assert await sets(today) == digests(today, other)
    assert await other.leave(last.id, later(5))
    await today.prune_nodes(later(5), 10)
    assert await sets(today) == digests(today, other)
    assert await today.prune_nodes(later(6), 10) == 1
    assert await sets(today) == digests(today)
    assert await today.differences() == []


async def test_nobody_drops_its_own_functions(url: str, opened: Opened) -> None:
    """A program that prunes may not be a node, and have been opened long ago."""
    store = await opened(program(url))
    await store.prune_nodes(later(1e9), 10)
    assert await sets(store) == digests(store)


async def test_who_opens_the_store_keeps_its_functions(url: str, opened: Opened) -> None:
    """A set without nodes stays as long as some program of it opened the store."""
    today = await opened(program(url))
    other = await opened(revised(program(url)))
    await opened(revised(program(url, at=Moment(NOW + NODES_KEPT))))
    await today.prune_nodes(Moment(NOW + NODES_KEPT), 10)
    assert await sets(today) == digests(today, other)
    await today.prune_nodes(Moment(NOW + NODES_KEPT + 1), 10)
    assert await sets(today) == digests(today)


async def test_a_program_that_slept_makes_its_functions_again(url: str, opened: Opened) -> None:
    """What it calls next is answered as if they had been there, in a session that knew them."""
    today, other = await opened(program(url)), await opened(revised(program(url)))
    (run,) = await add_runs(today, await add_job(today), 1)
    await other.survey(NOW)
    await today.prune_nodes(later(1), 10)
    assert await sets(today) == digests(today)
    assert len((await other.survey(NOW)).lanes) == 1
    assert await sets(today) == digests(today, other)
    (claimed,) = await (await Worker.join(other)).claim()
    assert claimed.run.id == run.id


async def test_a_migration_that_shuts_programs_out_drops_their_functions(url: str, opened: Opened) -> None:
    """What they call is refused from then on; they do not make their functions again."""
    older = await opened(program(url))
    other = await opened(revised(program(url)))
    worker = await Worker.join(older)
    await add_runs(older, await add_job(older), 1)
    newer = program(url, newer="SELECT 1;")
    await newer.open()
    await newer.migrate()
    for store in (older, other):
        with pytest.raises(SchemaMismatch, match="which nodes since number 2 can use"):
            await store.survey(NOW)
    with pytest.raises(SchemaMismatch, match="upgrade Tokimori"):
        await worker.claim()
    assert await sets(newer) == digests(newer)
    assert len(await (await Worker.join(newer)).claim()) == 1
    await newer.close()


async def test_a_script_drops_functions_as_a_migration_does(url: str, opened: Opened) -> None:
    """A migration that is carried out by hand shuts older programs out, too."""
    older = await opened(program(url))
    newer = program(url, newer="SELECT 1;")
    await newer.open()
    postgres.server().sql(await newer.script(whole=False), "functions")
    assert await sets(newer) == digests(newer)
    with pytest.raises(SchemaMismatch):
        await older.survey(NOW)
    await newer.close()


async def test_a_migration_that_lets_programs_go_on_leaves_their_functions(url: str, opened: Opened) -> None:
    """They work, and make them again where they were dropped."""
    older = await opened(program(url))
    newer = program(url, newer="SELECT 1;\n-- Nodes since schema 1 work on this one.")
    await newer.open()
    await newer.migrate()
    assert await sets(newer) == digests(older, newer)
    await newer.prune_nodes(later(1), 10)
    assert await sets(newer) == digests(newer)
    await older.survey(NOW)
    assert await sets(newer) == digests(older, newer)
    await newer.close()


async def test_functions_are_not_made_without_tables(url: str) -> None:
    """A call on an empty store says what makes its tables, and makes nothing."""
    store = program(url)
    await store.open()
    with pytest.raises(SchemaMismatch, match="run `tokimori db migrate`"):
        await store.survey(NOW)
    assert (await store.schema()).version is None
    await store.close()


async def test_installations_drop_none_of_each_other(url: str, opened: Opened) -> None:
    """The same set of another namespace stays."""
    named = f"{url}&namespace=a_b"
    for each in (url, named):
        await opened(revised(program(each)))
    plain, beside = await opened(program(url)), await opened(program(named))
    await plain.prune_nodes(later(1), 10)
    assert await (await opened(revised(program(named)))).differences() == []
    assert len(await beside.db.rows("SELECT FROM tokimori_function_sets")) == 2
    await beside.prune_nodes(later(1), 10)
    assert await plain.differences() == await beside.differences() == []
    assert len(await beside.db.rows("SELECT FROM tokimori_function_sets")) == 1


async def test_functions_of_somebody_else_are_left_to_him(url: str, opened: Opened) -> None:
    """A program that may not drop a set goes on pruning."""
    server = postgres.server()
    server.sql("CREATE ROLE guest LOGIN; GRANT CREATE ON DATABASE functions TO guest")
    await opened(revised(program(url)))
    server.sql("GRANT ALL ON SCHEMA public TO guest; GRANT ALL ON ALL TABLES IN SCHEMA public TO guest", "functions")
    guest = await opened(program(url.replace("postgres@", "guest@")))
    before = await sets(guest)
    await guest.prune_nodes(later(1), 10)
    assert await sets(guest) == before
    server.drop("functions")
    server.sql("DROP ROLE guest")


async def test_a_runs_columns_have_the_types_of_the_table(url: str, opened: Opened) -> None:
    """The functions take and give what the table holds."""
    store = await opened(program(url))
    rows = await store.db.rows(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'tokimori_runs'::regclass AND attnum > 0"
    )
    types = {name: type_ for name, type_ in rows}  # noqa: C416
    assert types_of(RUN) == [types[name] for name in RUN.replace('"', "").split(", ")]
